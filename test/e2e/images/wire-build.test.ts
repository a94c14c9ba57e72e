/** Builds from images over the public wire: registries that the owner allows, a login, slow ones. */

import { execFile } from "node:child_process";
import { createServer, request } from "node:http";
import { join } from "node:path";
import { promisify } from "node:util";
import { Sandbox } from "e2b";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  makeTestImages,
  startImageService,
  type ImageService,
} from "../../support/images/image-service.ts";
import { startRegistry, type Registry } from "../../support/images/registry.ts";
import { listenOnLoopback } from "../../support/loopback.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const PASSWORD = "secret";
/** `tester` with that password. */
const LOGIN = "tester:$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a";
const LIMIT_MS = 120_000;

const stack = new AsyncDisposableStack();
let open: Registry;
let slow: Slow;
let service: ImageService;

interface Slow extends AsyncDisposable {
  readonly host: string;
  /** Whether somebody waits for the content of an image. */
  readonly isAsked: () => boolean;
}

/** The registry `to`, but no content of an image ever comes. */
async function startSlow(to: Registry): Promise<Slow> {
  let isAsked = false;
  const server = createServer((incoming, reply) => {
    if (incoming.url?.includes("/blobs/")) {
      isAsked = true;
      return;
    }
    const { method, headers, url: path } = incoming;
    const [host, port] = to.host.split(":");
    const onward = request({ host, port, method, path, headers }, (answer) => {
      reply.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(reply);
    });
    incoming.pipe(onward);
  });
  const port = await listenOnLoopback(server);
  return {
    host: `127.0.0.1:${port}`,
    isAsked: () => isAsked,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
    },
  };
}

beforeAll(async () => {
  const { path } = stack.use(await makeTempFolder());
  open = stack.use(await startRegistry({ directory: join(path, "open") }));
  const closed = stack.use(await startRegistry({ directory: join(path, "closed"), login: LOGIN }));
  slow = stack.use(await startSlow(open));
  const images = stack.use(await makeTestImages(["alpine", "other"]));
  await images.push("alpine", open);
  await images.push("other", closed, `tester:${PASSWORD}`);
  const rules = { "open.example": open, "closed.example": closed, "slow.example": slow };
  service = stack.use(await startImageService(rules));
}, LIMIT_MS);

afterAll(() => stack.disposeAsync());

test("a registry on loopback is refused, unless the owner's rule leads there", async () => {
  const refused = service.build("none", `${open.host}/team/alpine:1`);
  await expect(refused).rejects.toThrow(/in the network of the service.*--registry-mirror/);
});

test(
  "nobody waits for the slow registry of another, not for the same image either",
  {
    timeout: LIMIT_MS,
  },
  async () => {
    const image = "slow.example/team/alpine:1";
    const stuck = service.build("stuck", image).catch((error: unknown) => error);
    await expect.poll(() => slow.isAsked()).toBe(true);
    const lines = await service.build("alpine", "open.example/team/alpine:1");
    expect(lines.find((line) => line.startsWith("image "))).toMatch(
      /^image open\.example\/team\/alpine@sha256:[0-9a-f]{64}$/,
    );
    const sandbox = await Sandbox.create("alpine", service.options);
    const seen = await sandbox.commands.run("cat /tmp/release; echo $IMAGE");
    expect(seen.stdout).toMatch(/alpine[^]*\nalpine\n$/i);
    await sandbox.kill();
    // A newer build of the template cancels the one that is stuck.
    await service.build("stuck", "open.example/team/alpine:1");
    expect(String(await stuck)).toMatch(/cancel/);
  },
);

test(
  "a login of the request reaches the registry, and no file and no line has it",
  {
    timeout: LIMIT_MS,
  },
  async () => {
    const image = "closed.example/team/other:1";
    await expect(service.build("closed", image)).rejects.toThrow(/refuses this login/);
    const wrong = { username: "tester", password: "hidden-word" };
    await expect(service.build("closed", image, wrong)).rejects.toThrow(/refuses this login/);
    const right = { username: "tester", password: PASSWORD };
    const lines = await service.build("closed", image, right);
    expect(lines.join("\n")).not.toContain("tester");
    const words = ["hidden-word", `tester:${PASSWORD}`].flatMap((text) => [
      text,
      Buffer.from(text).toString("base64"),
    ]);
    const patterns = words.flatMap((word) => ["-e", word]);
    const all = ["-rlF", ...patterns, "--exclude-dir=layers", service.home];
    await expect(promisify(execFile)("grep", all)).rejects.toMatchObject({ code: 1 });
  },
);
