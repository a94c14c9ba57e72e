# Runs `serve` on port 3490. The container creates containers itself, so it must be privileged, and
# the home directory must not be on the container's own overlay:
#   docker build -t sandbox-mcp .
#   docker run --privileged -v sandbox-mcp:/var/lib/sandbox-mcp -p 127.0.0.1:3490:3490 \
#     -e SANDBOX_MCP_API_KEY=<key> sandbox-mcp
# Other commands are words after the image's name: docker run … sandbox-mcp doctor
# For a host that starts the server on stdio:
#   docker run -i --rm --privileged -v … sandbox-mcp stdio

FROM node:24.21.0-bookworm-slim AS build
WORKDIR /build
COPY . .
RUN npm install --include=dev --no-audit --no-fund && npm run build && mkdir packed && npm pack --ignore-scripts --pack-destination packed

FROM node:24.21.0-bookworm-slim
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends crun runc mmdebstrap gpg perl util-linux e2fsprogs xfsprogs nftables iproute2 skopeo slirp4netns uidmap && rm -rf /var/lib/apt/lists/*
COPY --from=build /build/packed /tmp/packed
RUN npm install --global --no-audit --no-fund /tmp/packed/*.tgz && rm -rf /tmp/packed
ENV SANDBOX_MCP_HOST=0.0.0.0
VOLUME /var/lib/sandbox-mcp
EXPOSE 3490
# No shell is between Docker and the program, so that signals reach it. The service builds the base
# template at its first start, because `docker build` lacks the rights to build it.
ENTRYPOINT ["sandbox-mcp"]
CMD ["serve"]
