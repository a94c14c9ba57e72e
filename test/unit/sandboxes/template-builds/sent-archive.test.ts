/** The archive of a COPY step is sent as it is stored, and said to be compressed where it is. */

import { writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { connect } from "node:net";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { openDaemonClient } from "../../../../src/client/daemon-client.ts";
import { runStep } from "../../../../src/sandboxes/template-builds/run-step.ts";
import { tar } from "../../../support/images/tar-writer.ts";
import { listenOnLoopback } from "../../../support/loopback.ts";
import { makeTempFolder } from "../../../support/temp-folder.ts";

test.for([
  { form: "gzip", archive: gzipSync(tar({ path: "a" })), encoding: "gzip" },
  { form: "no compression", archive: tar({ path: "a" }), encoding: undefined },
])("an archive of $form", async ({ archive, encoding }) => {
  await using folder = await makeTempFolder();
  const path = join(folder.path, "archive");
  await writeFile(path, archive);
  const sent = Promise.withResolvers<object>();
  const server = createServer((request, response) => {
    const ended = buffer(request).finally(() => response.writeHead(507).end("full"));
    sent.resolve(ended.then((body) => ({ encoding: request.headers["content-encoding"], body })));
  });
  const port = await listenOnLoopback(server);
  const daemon = openDaemonClient({
    sandboxId: "i",
    token: undefined,
    dial: async () => connect(port, "127.0.0.1"),
  });
  const step = { type: "COPY", args: ["a", "/a"], filesHash: "0", force: false } as const;
  const state = { user: "root", workdir: "/", environment: {} };
  const lines = { write: () => undefined, end: () => undefined };
  const io = { daemon, signal: AbortSignal.timeout(2_000), lines, findFiles: async () => path };
  await expect(runStep(step, state, io)).rejects.toThrow("full");
  expect(await sent.promise).toEqual({ encoding, body: archive });
  await daemon[Symbol.asyncDispose]();
  server.close();
});
