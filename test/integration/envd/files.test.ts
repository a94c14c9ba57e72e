/** Upload, download and compose of a real daemon, as plain HTTP. */

import { createHash } from "node:crypto";
import {
  chmod,
  lstat,
  mkdir,
  readdir,
  readFile,
  stat,
  symlink,
  truncate,
  utimes,
  writeFile,
} from "node:fs/promises";
import { join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { startTestDaemon, type HttpReply } from "../../support/daemon/envd.ts";

const RAW = { "content-type": "application/octet-stream" };

function fault(reply: HttpReply): [number, string] {
  const body: { code: number; message: string } = JSON.parse(reply.text);
  expect(body.code).toBe(reply.status);
  return [reply.status, body.message];
}

function hash(bytes: Buffer): string {
  return createHash("sha256").update(bytes).digest("hex");
}

function form(parts: readonly { readonly head: string; readonly body: string }[]) {
  const text = parts.map(
    ({ head, body }) => `--b\r\nContent-Disposition: form-data; ${head}\r\n\r\n${body}\r\n`,
  );
  return {
    method: "POST",
    headers: { "content-type": "multipart/form-data; boundary=b" },
    body: `${text.join("")}--b--\r\n`,
  };
}

test("a raw upload makes parents, overwrites in place and keeps the mode", async () => {
  await using daemon = await startTestDaemon();
  const path = join(daemon.folder, "a", "b c.txt");
  const url = `/files?path=${encodeURIComponent(path)}`;
  const first = await daemon.http(url, { method: "POST", headers: RAW, body: "first, long" });
  expect([first.status, JSON.parse(first.text)]).toEqual([
    200,
    [{ path, name: "b c.txt", type: "file" }],
  ]);
  expect((await stat(path)).mode & 0o777).toBe(0o644);
  await chmod(path, 0o600);
  await daemon.http(url, { method: "POST", headers: RAW, body: "second" });
  expect([await readFile(path, "utf8"), (await stat(path)).mode & 0o777]).toEqual([
    "second",
    0o600,
  ]);
});

test("a form stores its file parts, and them alone", async () => {
  await using daemon = await startTestDaemon();
  const at = (name: string) => join(daemon.folder, name);
  const many = await daemon.http(
    "/files",
    form([
      { head: `name="file"; filename="${at("one")}"`, body: "1" },
      { head: 'name="other"', body: "ignored" },
      { head: `name="file"; filename="${at("d/zwei ä")}"\r\nContent-Type: text/plain`, body: "" },
    ]),
  );
  expect(JSON.parse(many.text)).toEqual([
    { path: at("one"), name: "one", type: "file" },
    { path: at("d/zwei ä"), name: "zwei ä", type: "file" },
  ]);
  expect([await readFile(at("one"), "utf8"), await readFile(at("d/zwei ä"), "utf8")]).toEqual([
    "1",
    "",
  ]);
  const bare = await daemon.http(
    `/files?path=${at("bare")}`,
    form([{ head: 'name="file"', body: "x" }]),
  );
  expect(JSON.parse(bare.text)).toEqual([{ path: at("bare"), name: "bare", type: "file" }]);
  expect((await daemon.http("/files", form([]))).text).toBe("[]");
});

test("what an upload is refused for", async () => {
  await using daemon = await startTestDaemon();
  const { folder } = daemon;
  const at = (name: string) => join(folder, name);
  await writeFile(at("file"), "");
  const post = async (query: string, headers: Record<string, string>, body = "x") =>
    fault(
      await daemon.http(`/files${query}`, { method: "POST", headers, body: Buffer.from(body) }),
    );
  const long = "x".repeat(300);
  expect([
    await post("", RAW),
    await post(`?path=${folder}`, RAW),
    await post(`?path=${at("new/")}`, RAW),
    await post(`?path=${at("file/below")}`, RAW),
    await post(`?path=${at(long)}`, RAW),
    await post(`?path=${at("x")}&path=${at("y")}`, RAW),
    await post(`?path=${at("x%00y")}`, RAW),
    await post(`?path=${at("x")}&username=nobody-here`, RAW),
    await post(`?path=${at("x")}&username=`, RAW),
    await post(`?path=${at("x")}`, { "content-type": "application/json" }),
    await post(`?path=${at("x")}`, { ...RAW, "content-encoding": "br" }),
    await post(`?path=${at("x")}`, { ...RAW, "content-encoding": "gzip" }),
    await post("", { "content-type": "multipart/form-data" }),
    await post("", { "content-type": "multipart/form-data; boundary=b" }, "--b\r\n"),
    await post(`?path=${at("x")}`, { ...RAW, [`x-metadata-${"k".repeat(247)}`]: "v" }),
    await post(`?path=${at("x")}`, { ...RAW, "x-metadata-key": "caf\u00e9" }),
    await post(`?path=${at("x")}`, { ...RAW, "x-metadata-key": "v".repeat(4_090) }),
  ]).toEqual([
    [400, "path query parameter is required for raw body upload"],
    [400, `path is a directory: ${folder}`],
    [400, `path is a directory: ${at("new/")}`],
    [500, `error ensuring directories: path is a file: ${at("file")}`],
    [500, `error getting file info: stat ${at(long)}: file name too long`],
    [400, "query parameter path is given more than once"],
    [400, "error resolving path: path contains a NUL byte"],
    [401, "error looking up user 'nobody-here': user: unknown user nobody-here"],
    [401, "error looking up user '': user: unknown user "],
    [
      400,
      "unsupported content type: application/json, expected multipart/form-data or application/octet-stream",
    ],
    [400, "error decompressing request body: unsupported Content-Encoding: br, supported: [gzip]"],
    [400, "error decompressing request body: failed to create gzip reader: gzip: invalid header"],
    [500, "error parsing multipart form: no multipart boundary param in Content-Type"],
    [500, "error reading form: unexpected EOF"],
    [400, `invalid metadata: metadata key "${"k".repeat(247)}" exceeds 246 bytes`],
    [
      400,
      'invalid metadata: metadata value for key "key" contains non-printable-ASCII byte 0xe9 at offset 3',
    ],
    [400, "invalid metadata: total metadata size 4102 exceeds 4096 bytes"],
  ]);
});

test("one path twice in a form: the first part stays", async () => {
  await using daemon = await startTestDaemon();
  const path = join(daemon.folder, "same");
  const part = (body: string) => ({ head: `name="file"; filename="${path}"`, body });
  const reply = await daemon.http("/files", form([part("1"), part("2")]));
  expect([fault(reply), await readFile(path, "utf8")]).toEqual([
    [
      400,
      `you cannot upload multiple files to the same path '${path}' in one upload request, only the first specified file was uploaded`,
    ],
    "1",
  ]);
});

test("one path of a name that is no text twice in a form: the first part stays", async () => {
  await using daemon = await startTestDaemon();
  const bytes = Buffer.concat([Buffer.from(`${daemon.folder}/a`), Buffer.of(0xff)]);
  await writeFile(bytes, "0");
  const path = join(daemon.folder, String.raw`a\xff`);
  const part = (body: string) => ({ head: `name="file"; filename="${path}"`, body });
  const reply = await daemon.http("/files", form([part("1"), part("2")]));
  expect([reply.status, await readFile(bytes, "utf8")]).toEqual([400, "1"]);
});

test("gzip in both directions, and a large file whole", async () => {
  await using daemon = await startTestDaemon();
  const path = join(daemon.folder, "big.bin");
  const content = Buffer.alloc(10_000_000, "0123456789abcdef-");
  await daemon.http(`/files?path=${path}`, {
    method: "POST",
    headers: { ...RAW, "content-encoding": "gzip" },
    body: gzipSync(content),
  });
  const plain = await daemon.http(`/files?path=${path}`);
  const zipped = await daemon.http(`/files?path=${path}`, {
    headers: { "accept-encoding": "gzip, deflate" },
  });
  expect([hash(plain.bytes), hash(gunzipSync(zipped.bytes))]).toEqual([
    hash(content),
    hash(content),
  ]);
  expect([plain.headers["content-length"], zipped.headers["content-encoding"]]).toEqual([
    "10000000",
    "gzip",
  ]);
});

test("the headers of a download", async () => {
  await using daemon = await startTestDaemon();
  const path = join(daemon.folder, "ä b.txt");
  await writeFile(path, "text");
  await utimes(path, 1_700_000_000, 1_700_000_000);
  const { status, headers, text } = await daemon.http(`/files?path=${encodeURIComponent(path)}`);
  const { date: _date, connection: _connection, ...rest } = headers;
  expect({ status, text, headers: rest }).toEqual({
    status: 200,
    text: "text",
    headers: {
      "accept-ranges": "bytes",
      "cache-control": "private, no-store",
      "content-disposition": "inline; filename*=utf-8''%C3%A4%20b.txt",
      "content-length": "4",
      "content-security-policy": "sandbox",
      "content-type": "text/plain; charset=utf-8",
      "last-modified": "Tue, 14 Nov 2023 22:13:20 GMT",
      "referrer-policy": "no-referrer",
      vary: "Accept-Encoding",
      "x-content-type-options": "nosniff",
    },
  });
});

test("parts, conditions and what cannot be met", async () => {
  await using daemon = await startTestDaemon();
  const path = join(daemon.folder, "digits");
  await writeFile(path, "0123456789");
  const get = async (headers: Record<string, string>) => {
    const reply = await daemon.http(`/files?path=${path}`, { headers });
    return [reply.status, reply.headers["content-range"], reply.text];
  };
  const modified = (await stat(path)).mtime.toUTCString();
  expect([
    await get({ range: "bytes=2-4" }),
    await get({ range: "bytes=-2", "accept-encoding": "gzip" }),
    await get({ range: "bytes=20-" }),
    await get({ "if-modified-since": modified }),
    await get({ "if-match": '"other"' }),
  ]).toEqual([
    [206, "bytes 2-4/10", "234"],
    [206, "bytes 8-9/10", "89"],
    [416, "bytes */10", ""],
    [304, undefined, ""],
    [412, undefined, ""],
  ]);
  const refused = { "accept-encoding": "gzip; q=1,*; q=0", range: "bytes=0-1" };
  expect([
    fault(await daemon.http(`/files?path=${path}`, { headers: refused })),
    fault(await daemon.http(`/files?path=${path}`, { headers: { "accept-encoding": "*;q=0" } })),
  ]).toEqual([
    [406, "identity encoding not acceptable for Range or conditional request"],
    [406, "error parsing Accept-Encoding: no acceptable encoding found, supported: [gzip]"],
  ]);
});

test("empty files have their length, kernel files their content", async () => {
  await using daemon = await startTestDaemon();
  const path = join(daemon.folder, "empty");
  await writeFile(path, "");
  const empty = await daemon.http(`/files?path=${path}`, {
    headers: { "accept-encoding": "gzip" },
  });
  expect([
    empty.status,
    empty.headers["content-length"],
    empty.headers["content-encoding"],
  ]).toEqual([200, "0", undefined]);
  expect((await daemon.http("/files?path=/proc/self/status")).text).toContain("Name:");
});

test("what a download is refused for", async () => {
  await using daemon = await startTestDaemon();
  const at = (name: string) => join(daemon.folder, name);
  await writeFile(at("file"), "");
  await daemon.processes.list({});
  const get = async (query: string) => fault(await daemon.http(`/files${query}`));
  expect([
    await get(`?path=${at("gone")}`),
    await get(`?path=${daemon.folder}`),
    await get(""),
    await get(`?path=${at("file/x")}`),
    await get("?path=/dev/null"),
    await get("?path=~other/x"),
    await get("?path=a%00b"),
    await get(`?path=/${"x".repeat(5_000)}`),
    await get(`?path=${at("file")}&username=nobody-here`),
  ]).toEqual([
    [404, `path '${at("gone")}' does not exist`],
    [400, `path '${daemon.folder}' is a directory`],
    [400, "path '/root' is a directory"],
    [500, `error checking if path exists '${at("file/x")}': stat ${at("file/x")}: not a directory`],
    [400, "path '/dev/null' is not a regular file"],
    [
      400,
      "error expanding and resolving path '~other/x': failed to expand path '~other/x' for user 'root': cannot expand user-specific home dir",
    ],
    [400, "error expanding and resolving path 'a\0b': path contains a NUL byte"],
    [
      500,
      `error checking if path exists '/${"x".repeat(5_000)}': stat /${"x".repeat(5_000)}: file name too long`,
    ],
    [401, "error looking up user 'nobody-here': user: unknown user nobody-here"],
  ]);
  expect((await daemon.http("/files?path=gone", { method: "HEAD" })).status).toBe(404);
});

test("a file that shrinks while it is sent breaks the reply off", async () => {
  await using daemon = await startTestDaemon();
  const path = join(daemon.folder, "shrinks");
  await writeFile(path, "");
  await truncate(path, 400_000_000);
  const outcome = daemon.http(`/files?path=${path}`).then(
    (reply) => reply.bytes.length,
    () => "broken",
  );
  await truncate(path, 10);
  expect([10, "broken"]).toContain(await outcome);
});

test("files are composed in order, the sources go, the target is new", async () => {
  await using daemon = await startTestDaemon();
  const at = (name: string) => join(daemon.folder, name);
  for (const name of ["1", "2", "3"]) await writeFile(at(name), name.repeat(100_000));
  await symlink("3", at("link"));
  await writeFile(at("target"), "old");
  await chmod(at("target"), 0o600);
  const before = await stat(at("target"));
  const reply = await daemon.http("/files/compose", {
    method: "POST",
    body: JSON.stringify({
      source_paths: [at("2"), at("1"), at("link"), at("2")],
      destination: at("target"),
      username: null,
      more: 1,
    }),
  });
  expect([reply.status, reply.headers["content-type"], JSON.parse(reply.text)]).toEqual([
    200,
    "application/json",
    { path: at("target"), name: "target", type: "file" },
  ]);
  const content = ["2", "1", "3", "2"].map((name) => name.repeat(100_000)).join("");
  const after = await stat(at("target"));
  expect([
    (await readFile(at("target"), "utf8")) === content,
    after.ino === before.ino,
    after.mode & 0o777,
    (await readdir(daemon.folder)).filter((name) => name !== "c").toSorted(),
  ]).toEqual([true, false, 0o644, ["3", "target"]]);
});

test("a request that is too large is answered, not cut off", async () => {
  await using daemon = await startTestDaemon();
  const reply = await daemon.http("/files/compose", {
    method: "POST",
    body: Buffer.alloc(3_000_000, " "),
  });
  expect(fault(reply)).toEqual([400, "invalid request body: body exceeds 1048576 bytes"]);
});

test("what a composition is refused for, with everything left as it was", async () => {
  await using daemon = await startTestDaemon();
  const at = (name: string) => join(daemon.folder, name);
  await mkdir(at("folder/in"), { recursive: true });
  await writeFile(at("a"), "a");
  await writeFile(at("b"), "b");
  await symlink(".", at("here"));
  const compose = async (body: unknown) =>
    fault(
      await daemon.http("/files/compose", {
        method: "POST",
        body: typeof body === "string" ? body : JSON.stringify(body),
      }),
    );
  const to = (source: string, destination = at("new")) => ({
    source_paths: [at("b"), source],
    destination,
  });
  expect([
    (await compose("{"))[0],
    (await compose({ source_paths: "x", destination: "y" }))[0],
    await compose({ source_paths: [], destination: at("new") }),
    await compose({ source_paths: [at("a")], destination: "" }),
    await compose({ ...to(at("a")), username: "nobody-here" }),
    await compose(to(at("a"), "~other")),
    await compose(to("~other")),
    await compose(to(at("a"), at("a"))),
    await compose(to(at("here/a"), at("a"))),
    await compose(to(at("gone"))),
    await compose(to(at("folder"))),
    await compose(to("")),
    (await compose(to(at("a"), at("folder")))).slice(0, 1),
    await compose(to(at("a"), at("b/below"))),
  ]).toEqual([
    400,
    400,
    [400, "source_paths must not be empty"],
    [400, "destination is required"],
    [401, "error looking up user 'nobody-here': user: unknown user nobody-here"],
    [
      400,
      "error resolving destination path: failed to expand path '~other' for user 'root': cannot expand user-specific home dir",
    ],
    [
      400,
      "error resolving source path \"~other\": failed to expand path '~other' for user 'root': cannot expand user-specific home dir",
    ],
    [400, `source path "${at("a")}" cannot be the same as destination`],
    [400, `source path "${at("here/a")}" cannot be the same as destination`],
    [404, `source file not found: ${at("gone")}`],
    [400, `source path is not a regular file: ${at("folder")}`],
    [400, "source path is not a regular file: "],
    [500],
    [500, `error ensuring directories: path is a file: ${at("b")}`],
  ]);
  expect([
    await readFile(at("a"), "utf8"),
    await readFile(at("b"), "utf8"),
    (await lstat(at("folder"))).isDirectory(),
    (await readdir(daemon.folder)).filter((name) => name !== "c").toSorted(),
  ]).toEqual(["a", "b", true, ["a", "b", "folder", "here"]]);
});
