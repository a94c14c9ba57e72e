/** Replies that are small to send and large to hold are refused before they are parsed. */

import type { ServerResponse } from "node:http";
import { createClient } from "@connectrpc/connect";
import { Agent } from "undici";
import { expect, test } from "vitest";
import { createEnvd } from "../../../src/client/envd.ts";
import { createRpcTransport } from "../../../src/client/rpc.ts";
import { createService } from "../../../src/client/service.ts";
import { createSystemClock } from "../../../src/common/clock.ts";
import { Process } from "../../../src/gen/process/process_pb.ts";
import { OPEN_ACCESS } from "../../support/control/access-source.ts";
import { SANDBOX_DETAIL } from "../../support/control/sandbox-detail.ts";
import { startTestDaemon } from "../../support/daemon/envd.ts";
import { startRecorder } from "../../support/network/recorder.ts";
import { envelope } from "../../support/raw-call.ts";
import { countTurns } from "../../support/turns.ts";

const { signal } = new AbortController();

const DEEP = { name: "deep", json: `${"[".repeat(100)}${"]".repeat(100)}`, text: "levels" };
const RICH = { name: "rich", json: `[${"{},".repeat(150_000)}{}]`, text: "values" };

/** A service whose answers, but for the sandbox itself, are all of the same text. */
async function startCostly(json: string) {
  const recorder = await startRecorder(({ url }, response) => {
    if (url === "/sandboxes/i1") send(response, "application/json", JSON.stringify(SANDBOX_DETAIL));
    else if (!url.startsWith("/process.Process/Start")) send(response, "application/json", json);
    else send(response, "application/connect+json", envelope(json));
  });
  const service = createService({
    url: recorder.url,
    sandboxUrl: recorder.url,
    apiKey: "secret-key",
  });
  const sandbox = await service.attach("i1", signal);
  return {
    service,
    sandbox,
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]();
      await recorder[Symbol.asyncDispose]();
    },
  };
}

function send(response: ServerResponse, type: string, body: string | Buffer): void {
  response.writeHead(200, { "content-type": type });
  response.end(body);
}

test.for([DEEP, RICH])("of the control API, the files and the calls: $name", async (costly) => {
  const unknown = `{"unknown":${costly.json}}`;
  await using world = await startCostly(unknown);
  const { service, sandbox } = world;
  const command = { cmd: "true", args: [], env: {}, hasStdin: false };
  const calls = [
    async () => service.control.list({}, signal),
    async () => sandbox.files.write("/a", Buffer.from("x"), { signal }),
    async () => sandbox.filesystem.stat("/a", { signal }),
    async () => sandbox.process.start(command, { signal }).next(),
  ];
  for (const call of calls) {
    await expect(call()).rejects.toMatchObject({
      code: "internal",
      message: expect.stringContaining(costly.text),
    });
  }
});

test("a size of a million digits", async () => {
  await using world = await startCostly(`{"entry":{"size":"${"9".repeat(1_000_000)}"}}`);
  await expect(world.sandbox.filesystem.stat("/a", { signal })).rejects.toMatchObject({
    code: "internal",
    message: expect.stringContaining("a string of more than 524288 bytes"),
  });
});

test("a list of processes, also of a daemon that is asked in the binary form otherwise", async () => {
  await using recorder = await startRecorder((_, response) => {
    send(response, "application/json", `{"unknown":${RICH.json}}`);
  });
  const dispatcher = new Agent();
  const { process } = createEnvd({
    connection: { dispatcher, clock: createSystemClock() },
    baseUrl: recorder.url,
    source: OPEN_ACCESS,
    isOwnDaemon: true,
  });
  await expect(process.list(signal)).rejects.toMatchObject({
    code: "internal",
    message: expect.stringContaining(RICH.text),
  });
  await dispatcher.destroy();
});

test("an error that would cost too much is quoted as the text that it is", async () => {
  await using recorder = await startRecorder((_, response) => {
    response.writeHead(400, { "content-type": "application/json" });
    response.end(`{"code":400,"message":${"[".repeat(1_000)}`);
  });
  await using service = createService({ url: recorder.url, apiKey: "secret-key" });
  await expect(service.control.list({}, signal)).rejects.toMatchObject({
    code: "invalid_argument",
    message: expect.stringContaining("[[[["),
  });
});

test("in the binary form brackets are no levels", async () => {
  await using daemon = await startTestDaemon();
  const dispatcher = new Agent({ connect: { socketPath: daemon.publicSocket } });
  const transport = createRpcTransport({
    connection: { dispatcher, clock: createSystemClock() },
    baseUrl: "http://localhost",
    headers: () => ({}),
    isBinary: true,
  });
  const client = createClient(Process, transport);
  const args = ["-c", "sleep 60", "[{,".repeat(500)];
  const process = { cmd: "sh", args };
  const started = client.start({ process, tag: "brackets" }, { signal });
  await started[Symbol.asyncIterator]().next();
  const { processes } = await client.list({});
  expect(processes.map(({ config }) => config?.args)).toEqual([args]);
  await dispatcher.destroy();
});

test("a flood of small events that arrived at once leaves others their turns", async () => {
  const events = Array.from({ length: 40_000 }, () => envelope('{"event":{"keepalive":{}}}'));
  const started = envelope('{"event":{"start":{"pid":7}}}');
  const flood = Buffer.concat([started, ...events, envelope("{}", { flags: 2 })]);
  await using recorder = await startRecorder(({ url }, response) => {
    if (url === "/sandboxes/i1") send(response, "application/json", JSON.stringify(SANDBOX_DETAIL));
    else send(response, "application/connect+json", flood);
  });
  await using service = createService({
    url: recorder.url,
    sandboxUrl: recorder.url,
    apiKey: "secret-key",
  });
  const sandbox = await service.attach("i1", signal);
  const command = { cmd: "true", args: [], env: {}, hasStdin: false };
  const reading = sandbox.process.start(command, { signal });
  await reading.next();
  using turns = countTurns();
  await expect(reading.next()).rejects.toThrow("stream without an end");
  expect(turns.count()).toBeGreaterThan(25);
});
