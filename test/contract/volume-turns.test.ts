/** More transfers of a volume at once than a team may have: what the pool of one client begins. */

import { once } from "node:events";
import { readdir } from "node:fs/promises";
import { request, type ClientRequest } from "node:http";
import type { Socket } from "node:net";
import { join } from "node:path";
import { expect, test } from "vitest";
import { volumeSchema } from "../../src/wire/control.ts";
import { startTestService } from "../support/service.ts";

async function statusOf(upload: ClientRequest) {
  const [reply] = await once(upload, "response");
  reply.resume();
  return reply.statusCode;
}

test("a transfer beyond the bound waits for its turn and is not refused", async () => {
  await using service = await startTestService();
  const made = await service.call({ method: "POST", path: "/volumes", body: { name: "v" } });
  const { volumeID, token } = volumeSchema.parse(made.body);
  const { socketPath } = service.embedded;
  const headers = { host: "localhost", authorization: `Bearer ${token}` };
  const put = (name: string): ClientRequest => {
    const path = `/volumecontent/${volumeID}/file?path=/${name}`;
    return request({ socketPath, path, method: "PUT", headers, agent: false });
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

/** At once, waiting, and one more. */
const TOO_MANY = 32 + 1_024 + 1;

test("so many operations on paths wait that one more is refused, while a transfer goes on", async () => {
  await using service = await startTestService();
  const made = await service.call({ method: "POST", path: "/volumes", body: { name: "v" } });
  const { volumeID, token } = volumeSchema.parse(made.body);
  const { socketPath } = service.embedded;
  const headers = { host: "localhost", authorization: `Bearer ${token}` };
  const send = (method: string, target: string): ClientRequest => {
    const path = `/volumecontent/${volumeID}/${target}`;
    return request({ socketPath, path, method, headers, agent: false });
  };
  const changes: ClientRequest[] = [];
  const replies: Promise<unknown>[] = [];
  while (changes.length < TOO_MANY) {
    const change = send("PATCH", "path?path=/");
    changes.push(change);
    replies.push(statusOf(change));
    // Without the end of its body none of them is over.
    change.on("error", () => undefined).write("{");
    const [socket]: Socket[] = await once(change, "socket");
    // No more than a queue of connections holds.
    if (socket?.connecting === true) await once(socket, "connect");
  }
  expect(await Promise.race(replies)).toBe(429);
  const download = send("GET", "file?path=/none");
  const status = statusOf(download);
  download.end();
  expect(await status).toBe(404);
  for (const change of changes) change.destroy();
  await Promise.allSettled(replies);
});
