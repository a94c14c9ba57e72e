/** Two connected containers, and a server beyond the network outside. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { routersOf } from "../../../src/engine/network/router-record.ts";
import { createRouters } from "../../../src/engine/network/router.ts";
import { endChild } from "../end-child.ts";
import { PERL_DIRECTORY } from "../perl-directory.ts";
import { makeTempFolder } from "../temp-folder.ts";
import { EVERYTHING, makeNetwork, startConnectable, within } from "./router-parts.ts";

/** Takes connections and keeps them. */
const SERVER = `
import resource, socket
resource.setrlimit(resource.RLIMIT_NOFILE, (8192, 8192))
server = socket.create_server(("192.0.2.2", 80), backlog=4096)
print(flush=True)
held = []
while True:
    held = held[-6000:] + [server.accept()[0]]
`;

/** The server is a program of Python that says when it listens, on port 80 of 192.0.2.2. */
export async function openRouterWorld(program = SERVER) {
  await using parts = new AsyncDisposableStack();
  const folder = parts.use(await makeTempFolder());
  const outside = parts.use(await makeNetwork(join(folder.path, "outside")));
  const far = parts.use(await makeNetwork(join(folder.path, "far")));
  await within(
    outside.path,
    `ip link add one type veth peer name far netns ${far.path} && ip link set one up
ip addr add 192.0.2.1/24 dev one && ip route add default via 192.0.2.2`,
  );
  await within(far.path, "ip link set far up && ip addr add 192.0.2.2/24 dev far");
  const server = spawn("nsenter", [`--net=${far.path}`, "python3", "-c", program]);
  parts.defer(async () => endChild(server));
  await once(server.stdout, "data");
  const owner = join(folder.path, "s");
  await mkdir(owner);
  const container = parts.use(await startConnectable(join(owner, "i1")));
  const other = parts.use(await startConnectable(join(owner, "i2")));
  const routers = createRouters(PERL_DIRECTORY);
  const disconnect = async () => routers.disconnect(container.directory);
  parts.defer(disconnect);
  parts.defer(async () => routers.disconnect(other.directory));
  const network = {
    path: outside.path,
    program: "/nonexistent",
    perlDirectory: PERL_DIRECTORY,
    resolvers: [],
    changes: 0,
  };
  for (const one of [container, other]) {
    await routers.setEgress({ ...one, outside: network }, EVERYTHING);
  }
  const [router] = await routersOf(owner);
  const ending = parts.move();
  return {
    far: far.path,
    outside: outside.path,
    router: router?.path ?? "",
    inside: `/proc/${container.record.pid}/ns/net`,
    neighbour: `/proc/${other.record.pid}/ns/net`,
    disconnect,
    [Symbol.asyncDispose]: async () => ending.disposeAsync(),
  };
}
