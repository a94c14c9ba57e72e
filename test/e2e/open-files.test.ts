/** A service whose limit of open files is reached by the connections of its clients. */

import { readdir } from "node:fs/promises";
import { Agent, request, type IncomingMessage } from "node:http";
import { connect, type Socket } from "node:net";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { PROGRAM } from "../support/program.ts";
import { gvisorRuntime } from "../support/runtimes.ts";
import { startServe, type TestServe } from "../support/serve.ts";

/** The least that a service accepts, as the first test checks. */
const LEAST = { shared: 256, own: 4096 } as const;
const MAX_OPEN_FILES = process.env["E2E_RUNTIME"] === "runsc" ? LEAST.own : LEAST.shared;

/** One connection, opened by its first request: the service has no descriptor for another one. */
function keptConnection(serve: TestServe) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const headers = { "x-api-key": serve.apiKey, "content-type": "application/json" };
  return {
    async send(method: string, path: string, options: { json?: object; id?: string } = {}) {
      const { json, id } = options;
      const routing = id === undefined ? {} : { "e2b-sandbox-id": id, "e2b-sandbox-port": "8000" };
      const call = request(new URL(path, serve.url), {
        agent,
        method,
        headers: { ...headers, ...routing },
      });
      call.end(json && JSON.stringify(json));
      const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
      call.once("response", resolve).once("error", reject);
      const reply = await promise;
      return { status: reply.statusCode, body: JSON.parse((await text(reply)) || "null") };
    },
    [Symbol.dispose]: () => agent.destroy(),
  };
}

/** Idle connections until the service can open nothing more. */
async function takeAll(serve: TestServe): Promise<Disposable & { readonly sockets: number }> {
  const { hostname, port } = new URL(serve.url);
  const folder = `/proc/${serve.program.child.pid}/fd`;
  const sockets: Socket[] = [];
  await expect
    .poll(
      async () => {
        const free = MAX_OPEN_FILES - (await readdir(folder)).length;
        for (let count = 0; count < free; count += 1) {
          const socket = connect({ host: hostname, port: Number(port) });
          // The service closes what it cannot take.
          sockets.push(socket.on("error", () => undefined));
        }
        return free <= 0;
      },
      { interval: 1, timeout: 30_000 },
    )
    .toBe(true);
  return {
    sockets: sockets.length,
    [Symbol.dispose]: () => sockets.forEach((socket) => socket.destroy()),
  };
}

function limited(count: number) {
  return ["prlimit", `--nofile=${count}:${count}`, process.execPath, PROGRAM] as const;
}

test.skipIf(gvisorRuntime() === undefined)(
  "a kernel of its own is refused with fewer descriptors than it needs, also where it was tried before",
  async () => {
    const flags = ["--pool", "0", "--runtime", gvisorRuntime() ?? ""];
    await using serve = await startServe(flags, { command: limited(LEAST.own) });
    await serve.program[Symbol.asyncDispose]();
    const said = /a kernel of its own needs 4096 open files or more, and ulimit -Hn is 4095/;
    const command = limited(LEAST.own - 1);
    await expect(startServe(flags, { earlier: serve, command })).rejects.toThrow(said);
  },
);

test("a service without descriptors says so, and goes on when it has some again", async () => {
  const command = limited(MAX_OPEN_FILES);
  await using serve = await startServe(["--pool", "0"], { command });
  using client = keptConnection(serve);
  const create = () => client.send("POST", "/sandboxes", { json: { templateID: "base" } });
  const first = await create();
  expect(first).toMatchObject({ status: 201, body: { sandboxID: expect.any(String) } });
  const { sandboxID: id } = first.body;
  {
    using taken = await takeAll(serve);
    expect(taken.sockets).not.toBe(0);
    const message =
      "the service has too many open files (close connections and streams, or start the service with a higher limit of open files: ulimit -n, LimitNOFILE of systemd)";
    expect(await create()).toMatchObject({
      status: 503,
      body: { code: 503, message: expect.stringContaining(message) },
    });
    expect(await client.send("GET", "/", { id })).toEqual({
      status: 503,
      body: { code: 503, sandboxId: id, port: 8000, message },
    });
  }
  using again = keptConnection(serve);
  const json = { templateID: "base" };
  await expect
    .poll(() => again.send("POST", "/sandboxes", { json }))
    .toMatchObject({ status: 201 });
  expect(serve.program.stderr()).not.toContain("uncaught error");
  for (const { sandboxID } of (await again.send("GET", "/sandboxes")).body) {
    expect(await again.send("DELETE", `/sandboxes/${sandboxID}`)).toMatchObject({ status: 204 });
  }
});
