/** Bodies that come one byte at a time: what is kept of each byte, and how often it is moved. */

import { connect } from "node:net";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startTestDaemon } from "../../support/daemon/envd.ts";
import { toTarget } from "../../support/hostile/daemon-target.ts";
import { mainThreadMs, residentBytes } from "../../support/hostile/fuzz.ts";
import { envelope } from "../../support/raw-call.ts";

const MIB = 1024 * 1024;
/** 18 to 34 MiB were measured, most of it free again; what the fault took was gigabytes. */
const MAX_GROWTH_BYTES = 48 * MIB;
/** Ten times what a byte costs in a chunk of its own; joined one by one they would take hours. */
const MAX_MS_PER_BYTE = 0.03;
const JSON_BYTES = 100_000;
const LAST_CHUNK = "0\r\n\r\n";

/** Every byte as a chunk of its own. */
function crumbled(bytes: Buffer): Buffer {
  const chunks = Buffer.alloc(bytes.length * 6, "1\r\n?\r\n");
  for (const [index, byte] of bytes.entries()) chunks[index * 6 + 3] = byte;
  return Buffer.concat([chunks, Buffer.from(LAST_CHUNK)]);
}

async function post(socketPath: string, path: string, call: { type: string; body: Buffer }) {
  const head = [
    `POST ${path} HTTP/1.1`,
    "Host: x",
    "Connection: close",
    `Content-Type: ${call.type}`,
    "Connect-Protocol-Version: 1",
    "Transfer-Encoding: chunked",
  ].join("\r\n");
  const socket = connect(socketPath);
  const { promise, resolve } = Promise.withResolvers<void>();
  let reply = "";
  socket.on("data", (bytes: Buffer) => {
    reply += bytes.toString("latin1");
  });
  // Who is refused before all was sent may find the connection reset behind the reply.
  socket.on("error", () => socket.destroy());
  socket.once("close", () => resolve());
  socket.write(Buffer.concat([Buffer.from(`${head}\r\n\r\n`), crumbled(call.body)]));
  await promise;
  return reply.slice("HTTP/1.1 ".length, "HTTP/1.1 200".length);
}

test("they cost what their bytes cost, and no more memory than those", async () => {
  await using daemon = await startTestDaemon();
  const { pid, ...target } = await toTarget(daemon);
  const text = (member: string) => Buffer.from(`{${member}"x":"${"y".repeat(JSON_BYTES)}"}`);
  const form = `--b\r\nContent-Disposition: form-data; name="file"; filename="${join(daemon.folder, "f")}"\r\n\r\n`;
  const file = Buffer.alloc(JSON_BYTES, "z");
  const calls = [
    { path: "/process.Process/List", type: "application/json", body: text("") },
    {
      path: "/process.Process/Start",
      type: "application/connect+json",
      body: envelope(text('"process":{"cmd":"true"},')),
    },
    {
      path: "/process.Process/Start",
      type: "application/connect+json",
      body: Buffer.concat(Array.from({ length: 20_000 }, () => envelope("{}"))),
    },
    { path: "/files/compose", type: "application/json", body: Buffer.alloc(400_000, " ") },
    { path: `/files?path=${daemon.folder}/r`, type: "application/octet-stream", body: file },
    {
      path: "/files",
      type: "multipart/form-data; boundary=b",
      body: Buffer.concat([Buffer.from(form), file, Buffer.from("\r\n--b--\r\n")]),
    },
  ];
  const statuses: string[] = [];
  for (const { path, ...call } of calls) {
    const [bytes, ms] = [residentBytes(pid), mainThreadMs(pid)];
    statuses.push(await post(daemon.publicSocket, path, call));
    expect([path, residentBytes(pid) - bytes < MAX_GROWTH_BYTES]).toEqual([path, true]);
    const spentMs = mainThreadMs(pid) - ms;
    expect([path, spentMs < 500 + MAX_MS_PER_BYTE * call.body.length]).toEqual([path, true]);
  }
  expect(statuses).toEqual(["200", "200", "200", "400", "200", "200"]);
  await target.checkHealth();
});
