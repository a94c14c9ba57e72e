/** Inputs that a server once did not stand; each was found by chance or by reading. */

import { expect, test } from "vitest";
import { startTestDaemon } from "../../support/daemon/envd.ts";
import { toTarget } from "../../support/hostile/daemon-target.ts";
import { mainThreadMs, residentBytes } from "../../support/hostile/fuzz.ts";
import { startHostileServer } from "../../support/hostile/hostile-server.ts";
import { envelope, readEnvelopes } from "../../support/raw-call.ts";
import { startTestService } from "../../support/service.ts";

const VERSION = { "connect-protocol-version": "1" };
const MIB = 1024 * 1024;

const TOO_DEEP = { status: 400, code: "invalid_argument" };
const TOO_RICH = { status: 429, code: "resource_exhausted" };
/** Each just below the limit of bytes, and each would be tens of times that in memory. */
const RICH_TEXTS = [
  { text: "[".repeat(4_000_000), ...TOO_DEEP },
  { text: "[".repeat(2_000_000) + "]".repeat(2_000_000), ...TOO_DEEP },
  { text: `${'{"a":'.repeat(600_000)}1${"}".repeat(600_000)}`, ...TOO_DEEP },
  { text: `{"x":[${"{},".repeat(1_300_000)}1]}`, ...TOO_RICH },
  {
    text: `{${Array.from({ length: 300_000 }, (_, index) => `"k${index}":1`).join()}}`,
    ...TOO_RICH,
  },
];

test("four megabytes of brackets cost the daemon neither its time nor its memory", async () => {
  await using daemon = await startTestDaemon({ isSealed: true });
  const target = await toTarget(daemon);
  const { pid } = target;
  const [bytes, ms] = [residentBytes(pid), mainThreadMs(pid)];
  for (const { text, status, code } of RICH_TEXTS) {
    const unary = await daemon.http("/process.Process/SendSignal", {
      method: "POST",
      headers: { ...VERSION, "content-type": "application/json" },
      body: text,
    });
    const stream = await daemon.http("/process.Process/Start", {
      method: "POST",
      headers: { ...VERSION, "content-type": "application/connect+json" },
      body: envelope(text),
    });
    const compose = await daemon.http("/files/compose", {
      method: "POST",
      body: text.slice(0, 1_000_000),
    });
    expect([unary.status, compose.status, readEnvelopes(stream.bytes)]).toEqual([
      status,
      400,
      [{ flags: 2, json: { error: expect.objectContaining({ code }) } }],
    ]);
  }
  expect((residentBytes(pid) - bytes) / MIB).toBeLessThan(64);
  expect(mainThreadMs(pid) - ms).toBeLessThan(250 * RICH_TEXTS.length);
  await target.checkHealth();
});

test("two million unknown fields of a binary message leave nothing behind", async () => {
  await using daemon = await startTestDaemon({ isSealed: true });
  const target = await toTarget(daemon);
  const { pid } = target;
  const bytes = residentBytes(pid);
  const reply = await daemon.http("/process.Process/Start", {
    method: "POST",
    headers: { ...VERSION, "content-type": "application/connect+proto" },
    body: envelope(Buffer.alloc(4_000_000, Buffer.from([0x78, 0x00]))),
  });
  expect(reply.text).toContain("process is missing");
  expect((residentBytes(pid) - bytes) / MIB).toBeLessThan(64);
  await target.checkHealth();
});

test("the control API refuses the same before it parses it", async () => {
  await using service = await startTestService();
  for (const { text, status } of RICH_TEXTS) {
    const reply = await fetchControl(service, text);
    // Who sends it again is refused again.
    expect(reply).toBe(status === TOO_RICH.status ? 400 : status);
  }
});

async function fetchControl(
  service: Awaited<ReturnType<typeof startTestService>>,
  text: string,
): Promise<number> {
  const reply = await service.dispatcher.request({
    origin: "http://localhost",
    path: "/sandboxes",
    method: "POST",
    headers: { "x-api-key": service.embedded.apiKey, "content-type": "application/json" },
    body: text,
  });
  await reply.body.dump();
  return reply.statusCode;
}

/** What a service in a sandbox answered, and the status that its client sees. */
const ANSWERS = [
  { name: "a status line with control characters", head: "HTTP/1.1 200 O\0K\x01", status: 200 },
  { name: "a status that does not exist", head: "HTTP/1.1 099 x", status: 502 },
  { name: "a protocol that nobody asked for", head: "HTTP/1.1 101 x\r\nUpgrade: x", status: 502 },
  {
    name: "two lengths",
    head: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Length: 1",
    status: 502,
  },
];

test.for(ANSWERS)("from a service inside: $name", async ({ head, status }) => {
  await using hostile = await startHostileServer();
  await using service = await startTestService();
  const { sandboxID } = await service.create();
  const ask = async () =>
    (await service.enter({ sandboxID, port: hostile.port }, { path: "/" })).status;
  hostile.answer([Buffer.from(`${head}\r\nConnection: Upgrade\r\n\r\n`)], { staysOpen: false });
  expect(await ask()).toBe(status);
});

test("a cookie of sixteen thousand blanks is read in no time", async () => {
  await using hostile = await startHostileServer();
  await using service = await startTestService();
  const { sandboxID } = await service.create();
  const cookie = `Set-Cookie: a=b; domain=a${" ".repeat(15_000)}b`;
  const head = `HTTP/1.1 200 OK\r\n${cookie}\r\nContent-Length: 0\r\n\r\n`;
  hostile.answer([Buffer.from(head)], { staysOpen: false });
  const ms = mainThreadMs(process.pid);
  const reply = await service.enter({ sandboxID, port: hostile.port }, { path: "/" });
  expect([reply.status, reply.headers["set-cookie"]]).toEqual([200, "a=b"]);
  expect(mainThreadMs(process.pid) - ms).toBeLessThan(100);
});
