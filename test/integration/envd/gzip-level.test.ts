/** How much time a daemon spends on the gzip stream of a download. */

import { randomBytes } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { startTestDaemon } from "../../support/daemon/envd.ts";

test("what is compressed already is not compressed again in its gzip stream", async () => {
  await using daemon = await startTestDaemon();
  const file = join(daemon.folder, "file");
  const [text, noise] = [Buffer.from("all the same\n".repeat(100)), randomBytes(1_000_000)];
  const download = async (content: Buffer) => {
    await writeFile(file, content);
    const headers = { "accept-encoding": "gzip" };
    const reply = await daemon.http(`/files?path=${file}`, { headers });
    expect(reply.headers["content-encoding"]).toBe("gzip");
    expect(gunzipSync(reply.bytes).equals(content)).toBe(true);
    return reply.bytes;
  };
  // The middle of the file decides for all of it, and so for its head.
  expect((await download(Buffer.concat([text, noise]))).includes(text)).toBe(true);
  expect((await download(Buffer.concat([text, text, noise.subarray(0, 100)]))).includes(text)).toBe(
    false,
  );
});
