/** Requests in another encoding than UTF-8, whose names must never become those of other files. */

import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startTestDaemon } from "../../support/daemon/envd.ts";
import { envelope, readEnvelopes } from "../../support/raw-call.ts";

const UNARY = { "content-type": "application/json", "connect-protocol-version": "1" };
const STREAM = { ...UNARY, "content-type": "application/connect+json" };
const RAW = { "content-type": "application/octet-stream" };
const FORM = { "content-type": "multipart/form-data; boundary=b" };
/** What bytes that are no text become in most decoders. */
const REPLACED = "caf\uFFFD";

function inLatin(json: object): Buffer {
  return Buffer.from(JSON.stringify(json), "latin1");
}

test("JSON in another encoding is refused, and does nothing", async () => {
  await using daemon = await startTestDaemon();
  await writeFile(join(daemon.folder, REPLACED), "");
  const removal = await daemon.http("/filesystem.Filesystem/Remove", {
    method: "POST",
    headers: UNARY,
    body: inLatin({ path: join(daemon.folder, "café") }),
  });
  const start = await daemon.http("/process.Process/Start", {
    method: "POST",
    headers: STREAM,
    body: envelope(inLatin({ process: { cmd: "/bin/echo", args: ["café"] } })),
  });
  const refused = { code: "invalid_argument", message: "JSON is not in UTF-8" };
  expect([removal.status, JSON.parse(removal.text), readEnvelopes(start.bytes)]).toEqual([
    400,
    refused,
    [{ flags: 2, json: { error: refused } }],
  ]);
  expect(await readdir(daemon.folder)).toContain(REPLACED);
});

test("the name of a file in another encoding is refused", async () => {
  await using daemon = await startTestDaemon();
  const { folder } = daemon;
  await writeFile(join(folder, REPLACED), "kept");
  const url = `/files?path=${folder}/caf%E9`;
  const part = `--b\r\nContent-Disposition: form-data; name="file"; filename="${folder}/café"`;
  const body = Buffer.from(`${part}\r\n\r\nx\r\n--b--\r\n`, "latin1");
  const replies = [
    await daemon.http(url),
    await daemon.http(url, { method: "POST", headers: RAW, body: "x" }),
    await daemon.http("/files", { method: "POST", headers: FORM, body }),
  ];
  expect(replies.map(({ text }): unknown => JSON.parse(text))).toEqual([
    { code: 400, message: "query is not in UTF-8" },
    { code: 400, message: "query is not in UTF-8" },
    { code: 400, message: "error reading form: headers of a part are not in UTF-8" },
  ]);
  expect(await readFile(join(folder, REPLACED), "utf8")).toBe("kept");
  await writeFile(join(folder, "café 100%"), "whole");
  const whole = await daemon.http(`/files?path=${folder}/caf%C3%A9+100%`);
  expect([whole.status, whole.text]).toEqual([200, "whole"]);
});
