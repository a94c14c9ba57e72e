/** More transfers of a volume at once than a team may have: what the pool of one client begins. */

import { once } from "node:events";
import { readdir } from "node:fs/promises";
import { request, type ClientRequest } from "node:http";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { expect, test } from "vitest";
import { volumeSchema } from "../../src/wire/control.ts";
import { startTestService, type TestService } from "../support/service.ts";

async function statusOf(upload: ClientRequest) {
  const [reply] = await once(upload, "response");
  reply.resume();
  return reply.statusCode;
}

async function makeVolume(service: TestService) {
  const made = await service.call({ method: "POST", path: "/volumes", body: { name: "v" } });
  const { volumeID, token } = volumeSchema.parse(made.body);
  return { path: `/volumecontent/${volumeID}`, token };
}

/** Of all replies until the connection ends; what was sent behind a refused request resets it. */
async function readStatuses(socket: Socket): Promise<string[]> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const pieces: Buffer[] = [];
  socket.on("data", (piece: Buffer) => void pieces.push(piece));
  socket.on("error", () => undefined).once("close", () => resolve());
  await promise;
  const replies = Buffer.concat(pieces).toString("latin1");
  return [...replies.matchAll(/HTTP\/1\.1 ([0-9]{3}) /g)].map(([, status = ""]) => status);
}

test("a transfer beyond the bound waits for its turn and is not refused", async () => {
  await using service = await startTestService();
  const { path, token } = await makeVolume(service);
  const { socketPath } = service.embedded;
  const headers = { host: "localhost", authorization: `Bearer ${token}` };
  const put = (name: string): ClientRequest => {
    const target = `${path}/file?path=/${name}`;
    return request({ socketPath, path: target, method: "PUT", headers, agent: false });
  };
  const uploads = Array.from({ length: 64 }, (_, index) => put(`${index}`));
  const statuses = uploads.map(async (upload) => statusOf(upload));
  for (const upload of uploads) upload.write("x");
  const parts = async () =>
    (await readdir(join(service.home, "volumes"))).filter((name) => name.endsWith(".part"));
  await expect.poll(async () => (await parts()).length, { timeout: 10_000 }).toBe(64);
  // The first of these leaves while it waits.
  const [left, next] = [put("left"), put("next")];
  left.on("error", () => undefined).end("x");
  const status = statusOf(next);
  next.end("x");
  left.destroy();
  uploads[0]?.end();
  expect(await status).toBe(201);
  for (const upload of uploads) upload.end();
  expect(new Set(await Promise.all(statuses))).toEqual(new Set([201]));
});

/** Together twice as many as run and wait; those of one connection come in one piece. */
const CROWD = { connections: 66, ofEach: 32 } as const;

test("of a crowd of operations on paths some are refused, and a transfer is not", async () => {
  await using service = await startTestService();
  const { path, token } = await makeVolume(service);
  const send = async (target: string, amount: number): Promise<string[]> => {
    const socket = connect(service.embedded.socketPath);
    const head = `GET ${path}/${target} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${token}`;
    const last = `${head}\r\nconnection: close\r\n\r\n`;
    socket.write(`${head}\r\n\r\n`.repeat(amount - 1) + last);
    return readStatuses(socket);
  };
  const crowd = Array.from({ length: CROWD.connections }, async () =>
    send("path?path=/", CROWD.ofEach),
  );
  expect(await send("file?path=/none", 1)).toEqual(["404"]);
  expect(new Set((await Promise.all(crowd)).flat())).toEqual(new Set(["200", "429"]));
});

test("a change whose body does not come takes no turn", async () => {
  await using service = await startTestService();
  const { path, token } = await makeVolume(service);
  const { socketPath } = service.embedded;
  const headers = { host: "localhost", authorization: `Bearer ${token}` };
  const send = (method: string): ClientRequest =>
    request({ socketPath, path: `${path}/path?path=/`, method, headers, agent: false });
  const changes = Array.from({ length: 32 }, () => send("PATCH"));
  for (const change of changes) change.on("error", () => undefined).write("{");
  const stat = send("GET");
  const status = statusOf(stat);
  stat.end();
  expect(await status).toBe(200);
  for (const change of changes) change.destroy();
});
