/** The changes of a sandbox are hostile input: what no daemon says is refused, and never becomes a layer. */

import { Readable } from "node:stream";
import { expect, test } from "vitest";
import { readReport, writeLayer } from "../../../src/cluster/snapshots/layer.ts";
import { createByteReader } from "../../../src/images/byte-reader.ts";
import { readTar } from "../../../src/images/tar.ts";
import {
  gnuLongName,
  tar,
  tarEntry,
  tarHeader,
  type TarItem,
} from "../../support/images/tar-writer.ts";

const BOUNDS = { maxBytes: 64 * 1024, maxEntries: 20, maxPathBytes: 200 };
const folder = (path: string): TarItem => ({ path: `${path}/`, type: "5", mode: 0o755 });
const link = (path: string, target: string): TarItem => ({ path, type: "2", link: target });
const hard = (path: string, target: string): TarItem => ({ path, type: "1", link: target });

async function layerOf(archive: Buffer): Promise<Buffer> {
  const parts: Buffer[] = [];
  await writeLayer(Readable.from([archive]), BOUNDS, async (chunk) => void parts.push(chunk));
  return Buffer.concat(parts);
}

async function entriesOf(archive: Buffer): Promise<string[]> {
  const reader = createByteReader(Readable.from([archive]));
  const entries: string[] = [];
  await readTar(reader, async ({ kind, path, target, mode, uid, dataBytes }) => {
    const data = await reader.require(dataBytes);
    entries.push(`${kind} ${path} ${target} ${mode.toString(8)} ${uid} ${data.toString()}`);
  });
  return entries;
}

test("what a daemon says is written as it was", async () => {
  const archive = tar(
    folder("a"),
    { path: "a/file", data: "data", mode: 0o4755, uid: 1000 },
    link("a/link", "../../outside"),
    hard("a/hard", "a/file"),
    { path: "a/.wh.gone", mode: 0 },
    { path: "a/fifo", type: "6" },
    folder("run"),
    { path: "run/own", data: "1" },
  );
  expect(await entriesOf(await layerOf(archive))).toEqual([
    "directory a/  755 0 ",
    "file a/file  4755 1000 data",
    "symlink a/link ../../outside 644 0 ",
    "hardlink a/hard a/file 644 0 ",
    "file a/.wh.gone  0 0 ",
    "fifo a/fifo  644 0 ",
    "directory run/  755 0 ",
    "file run/own  644 0 1",
  ]);
});

test.for<[string, readonly (TarItem | Buffer)[], string]>([
  ["a name that leaves", [{ path: "../out" }], "a path"],
  ["a name that leaves further on", [folder("a"), { path: "a/../../out" }], "a path"],
  ["an absolute name", [{ path: "/etc/passwd" }], "a path"],
  ["the root itself", [folder(".")], "a path"],
  ["no name", [{ path: "" }], "a path"],
  ["two slashes", [folder("a"), { path: "a//b" }], "a path"],
  ["a NUL in a name", [{ path: "x", pax: [["path", "a\0b"]] }], "a path"],
  [
    "a NUL in a target",
    [{ ...link("x", ""), pax: [["linkpath", "a\0b"]] }],
    "the target of a link",
  ],
  ["a long name", [gnuLongName("n".repeat(256)), { path: "n" }], "a path"],
  ["a long path", [gnuLongName("n/".repeat(2_050)), { path: "n" }], "a path"],
  ["a long target", [gnuLongName("t".repeat(4_097), "K"), link("x", "")], "the target of a link"],
  ["a block device", [{ path: "sda", type: "4" }], "a device"],
  ["a character device", [{ path: "null", type: "3" }], "a device"],
  ["an owner beyond all", [{ path: "x", pax: [["uid", "4294967295"]] }], "an owner"],
  ["a file of the daemon", [folder("run"), { path: "run/sandbox-mcp/node" }], "a kept path"],
  ["its secret", [folder("run"), { path: "run/sandbox-mcp.secret" }], "a kept path"],
  ["its list of the image", [folder("run"), { path: "run/sandbox-mcp.baseline" }], "a kept path"],
  ["the end of its folder", [folder("run"), { path: "run/.wh.sandbox-mcp" }], "a kept path"],
  ["the end of what holds it", [{ path: ".wh.run" }], "a kept path"],
  ["a link in its place", [folder("run"), link("run/sandbox-mcp", "/tmp")], "a kept path"],
  ["a link in the place of what holds it", [link("run", "/tmp")], "a kept path"],
  ["a hard link to its files", [hard("x", "run/sandbox-mcp/node")], "a kept path"],
  ["a hard link that leaves", [hard("x", "../../etc/shadow")], "a path"],
  ["an absolute hard link", [hard("x", "/etc/shadow")], "a path"],
  ["an opaque whiteout", [folder("a"), { path: "a/.wh..wh..opq" }], "a whiteout"],
  ["a whiteout with data", [{ path: ".wh.x", data: "1" }], "a whiteout"],
  ["a whiteout that is a folder", [folder(".wh.x")], "a whiteout"],
  ["a whiteout of nothing", [{ path: ".wh." }], "a whiteout"],
  ["a whiteout of a parent", [folder("a"), { path: "a/.wh..." }], "a whiteout"],
] as const)("%s is refused", async ([, items, subject]) => {
  const message = `the changes of the sandbox hold ${subject}`;
  await expect(layerOf(tar(...items))).rejects.toMatchObject({
    code: "failed_precondition",
    message,
  });
});

/** The image of many distributions has the link `/var/run` to `/run`. */
test.for<[string, readonly TarItem[], string]>([
  ["a link of the image", [folder("var"), { path: "var/run/sandbox-mcp/node" }], "without its"],
  ["a link of the image, to a folder", [folder("var"), folder("var/run/sandbox-mcp")], "without"],
  ["its own link", [link("x", "/run"), { path: "x/sandbox-mcp/node" }], "without its"],
  ["a link in the place of a folder", [folder("x"), link("x", "/run")], "that ends again"],
  ["a folder that it ends", [folder("x"), { path: ".wh.x" }], "that ends again"],
  ["a hard link by a link", [folder("var"), hard("x", "var/run/sandbox-mcp/node")], "without its"],
])("the daemon is not reached by %s", async ([, items, subject]) => {
  await expect(layerOf(tar(...items))).rejects.toThrow(subject);
});

test("a folder in the place of a link of the image is one of its own", async () => {
  const archive = tar(folder("var"), folder("var/run"), { path: "var/run/own", data: "1" });
  expect(await entriesOf(await layerOf(archive))).toHaveLength(3);
});

test.for<[string, Buffer, string]>([
  ["entries", tar(...Array.from({ length: 21 }, (_, n) => ({ path: `f${n}` }))), "20 files"],
  ["bytes", tar({ path: "large", data: Buffer.alloc(65 * 1024) }), "more than 65536 bytes"],
  ["headers", tar(...Array.from({ length: 19 }, () => wide())), "more than 65536 bytes"],
  ["folders", tar(...["f", "g", "h"].map((n) => folder(n.repeat(90)))), "too many directories"],
])("too many %s are refused", async ([, archive, message]) => {
  await expect(layerOf(archive)).rejects.toMatchObject({
    code: "resource_exhausted",
    message: expect.stringContaining(message),
  });
});

/** Its target takes some blocks. */
function wide(): Buffer {
  return Buffer.concat([gnuLongName("t".repeat(4_000), "K"), tarEntry(link("x", ""))]);
}

test("a size that is announced is refused before its bytes come", async () => {
  const header = tarHeader({ path: "large", size: 1024 ** 3 });
  const source = async function* () {
    yield header;
    throw new Error("more was read");
  };
  const reading = writeLayer(source(), BOUNDS, async () => undefined);
  await expect(reading).rejects.toMatchObject({ code: "resource_exhausted" });
});

test("so is one beyond the largest disk, whatever memory there is", async () => {
  const maxBytes = 2 ** 46;
  const archive = tar({ path: "large", pax: [["size", String(2 * maxBytes)]] });
  const source = Readable.from([archive]);
  const reading = writeLayer(source, { ...BOUNDS, maxBytes }, async () => undefined);
  await expect(reading).rejects.toMatchObject({
    code: "resource_exhausted",
    message: expect.stringContaining(`more than ${maxBytes} bytes`),
  });
});

test.for([600, 700, 1_100, 2_000])("an archive of two files cut at %i is refused", async (at) => {
  const archive = tar({ path: "a", data: "1".repeat(600) }, { path: "b", data: "2" });
  const cut = archive.subarray(0, at);
  await expect(layerOf(cut)).rejects.toThrow(/cut off|ends/);
});

test.for([undefined, "", "null", "{}", '{"skipped":-1,"torn":0}', '{"skipped":0,"torn":"1"}', "{"])(
  "the trailer %s is refused",
  (text) => {
    expect(() => readReport(text)).toThrow("did not tell all changes");
  },
);

test("the trailer of a daemon is read", () => {
  expect(readReport('{"skipped":1,"torn":2}')).toEqual({ skipped: 1, torn: 2 });
});
