/** Several parts of a file in one download, a file whose size is not known before, and heads alone. */

import { mkdtempDisposable, readFile, stat, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { startTestDaemon, type HttpReply } from "../../support/daemon/envd.ts";

test("several parts of a file come as one body, each with its place", async () => {
  await using daemon = await startTestDaemon();
  const path = join(daemon.folder, "digits");
  await writeFile(path, "0123456789");
  const reply = await daemon.http(`/files?path=${path}`, {
    headers: { range: "bytes=0-2,-2,50-", "accept-encoding": "gzip" },
  });
  const type = reply.headers["content-type"] ?? "";
  expect([reply.status, type]).toEqual([
    206,
    expect.stringMatching(/^multipart\/byteranges; boundary=[0-9a-f]{40}$/),
  ]);
  expect(reply.headers["content-length"]).toBe(String(reply.bytes.length));
  const boundary = type.slice(type.indexOf("=") + 1);
  const part = (range: string, text: string) =>
    `--${boundary}\r\nContent-Range: bytes ${range}/10\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n${text}\r\n`;
  expect(reply.text).toBe(`${part("0-2", "012")}${part("8-9", "89")}--${boundary}--\r\n`);
});

test("of many parts nothing stays behind while the rest is sent", async () => {
  await using folder = await mkdtempDisposable("/tmp/envd-ranges-");
  const log = join(folder.path, "stderr");
  // Node warns there of an object that gets more and more listeners.
  await using daemon = await startTestDaemon({ within: ["sh", "-c", 'exec "$@" 2> "$0"', log] });
  const path = join(daemon.folder, "digits");
  await writeFile(path, "0123456789".repeat(100));
  const ranges = Array.from({ length: 200 }, (_, index) => `${5 * index}-${5 * index + 4}`);
  const { status, text } = await daemon.http(`/files?path=${path}`, {
    headers: { range: `bytes=${ranges.join(",")}` },
  });
  const parts = [
    ...text.matchAll(
      /Content-Range: bytes (?<range>[0-9-]+)\/1000\r\n.*\r\n\r\n(?<part>[0-9]+)\r\n/g,
    ),
  ];
  const expected = ranges.map((range, index) => [range, index % 2 === 0 ? "01234" : "56789"]);
  expect(status).toBe(206);
  expect(parts.map(({ groups }) => [groups?.["range"], groups?.["part"]])).toEqual(expected);
  expect(await readFile(log, "utf8")).not.toContain("MaxListenersExceededWarning");
});

test("parts that are larger than the file together are the whole of it", async () => {
  await using daemon = await startTestDaemon();
  const path = join(daemon.folder, "digits");
  await writeFile(path, "0123456789");
  const get = async (range: string) => {
    const reply = await daemon.http(`/files?path=${path}`, { headers: { range } });
    return [reply.status, reply.headers["content-range"], reply.text];
  };
  expect([
    await get("bytes=0-8,1-9"),
    await get("bytes=1-2,40-"),
    await get("bytes=40-,50-"),
  ]).toEqual([
    [200, undefined, "0123456789"],
    [206, "bytes 1-2/10", "12"],
    [416, "bytes */10", ""],
  ]);
});

test("a file of sysfs says that it has a page, and is sent as it is", async () => {
  await using daemon = await startTestDaemon();
  const path = "/sys/devices/system/cpu/online";
  const content = await readFile(path, "utf8");
  expect((await stat(path)).size).toBeGreaterThan(content.length);
  for (const headers of [{}, { range: "bytes=0-99" }, { "accept-encoding": "gzip" }]) {
    const { status, bytes } = await daemon.http(`/files?path=${path}`, { headers });
    const text = "accept-encoding" in headers ? gunzipSync(bytes).toString() : bytes.toString();
    expect([status, text]).toEqual([200, content]);
  }
});

test.for(["identity", "gzip"])("HEAD has the headers of the whole file, %s", async (coding) => {
  await using daemon = await startTestDaemon();
  await writeFile(join(daemon.folder, "a.txt"), "some text\n");
  const url = `/files?path=${daemon.folder}/a.txt`;
  const ask = async (method: string, headers = {}) =>
    daemon.http(url, { method, headers: { "accept-encoding": coding, ...headers } });
  const whole = await ask("GET");
  const head = await ask("HEAD", { range: "bytes=0-1" });
  const kept = ["content-type", "content-length", "content-encoding", "last-modified", "vary"];
  const told = ({ headers }: HttpReply) => kept.map((name) => headers[name]);
  expect([head.status, head.text]).toEqual([200, ""]);
  expect(told(head)).toEqual(told(whole));
});

test("a time that no date can tell is left out", async () => {
  await using daemon = await startTestDaemon();
  // The file system of the memory keeps any time.
  await using folder = await mkdtempDisposable("/dev/shm/time-test-");
  const path = join(folder.path, "file");
  await writeFile(path, "x");
  await utimes(path, 9e12, 9e12);
  const { status, headers } = await daemon.http(`/files?path=${path}`);
  expect([status, headers["last-modified"]]).toEqual([200, undefined]);
});
