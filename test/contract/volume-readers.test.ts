/** Clients that leave while they read the content of a volume: no fault of the service. */

import { once } from "node:events";
import { request } from "node:http";
import { expect, test, vi } from "vitest";
import { createSilentLog } from "../../src/common/log.ts";
import { volumeSchema } from "../../src/wire/control.ts";
import { startTestService } from "../support/service.ts";

/** More than the buffers of a connection take. */
const BYTES = 32 * 1024 * 1024;

function isOfContent([entry]: readonly unknown[]): boolean {
  return JSON.stringify(entry).includes('"volume.content"');
}

test("a client that leaves within a file is no warning in the log", async () => {
  const log = createSilentLog();
  const debug = vi.spyOn(log, "debug");
  const warn = vi.spyOn(log, "warn");
  await using service = await startTestService({ log });
  const made = await service.call({ method: "POST", path: "/volumes", body: { name: "v" } });
  const { volumeID, token } = volumeSchema.parse(made.body);
  const { socketPath } = service.embedded;
  const headers = { host: "localhost", authorization: `Bearer ${token}` };
  const path = `/volumecontent/${volumeID}/file?path=/a`;
  const upload = request({ socketPath, path, method: "PUT", headers });
  upload.end(Buffer.alloc(BYTES));
  const [written] = await once(upload, "response");
  written.resume();
  expect(written.statusCode).toBe(201);
  const download = request({ socketPath, path, headers }).end();
  const [reply] = await once(download, "response");
  await once(reply, "readable");
  reply.on("error", () => undefined);
  download.destroy();
  await expect.poll(() => debug.mock.calls.filter(isOfContent).length).toBe(1);
  expect(warn.mock.calls.filter(isOfContent)).toEqual([]);
});
