/** Images that were made to do harm: links, marks, devices, bombs. Each is refused, or harmless. */

import { TAR_END, gnuLongName, paxEntry, tar, tarEntry, tarHeader } from "../images/tar-writer.ts";

export interface HostileImage {
  readonly name: string;
  /** Layers above one with a shell; `out` is a directory outside with a file `canary`. */
  layers(out: string): readonly Buffer[];
  /** The reason of the refusal; absent for one that is harmless. */
  readonly refused?: RegExp;
  /** Paths of the unpacked tree: what is there, as `file`, `directory`, `link`, or not. */
  readonly tree?: Readonly<Record<string, "file" | "directory" | "link" | "missing">>;
}

const link = (path: string, target: string) => ({ path, type: "2", link: target });
const hard = (path: string, target: string) => ({ path, type: "1", link: target });
const folder = (path: string) => ({ path, type: "5", mode: 0o755 });
const file = (path: string, data = "harm") => ({ path, data });

function image(
  name: string,
  layers: HostileImage["layers"],
  more: Omit<HostileImage, "name" | "layers"> = {},
): HostileImage {
  return { name, layers, ...more };
}

const inside = { tree: { "evil/pwned": "file" } } as const;

const LINKS: readonly HostileImage[] = [
  image(
    "a file through an absolute link",
    (out) => [tar(link("evil", out), file("evil/pwned"))],
    inside,
  ),
  image(
    "a file through a relative link",
    (out) => [tar(link("evil", `../../../../../../../..${out}`), file("evil/pwned"))],
    inside,
  ),
  image(
    "a file through a chain of links",
    (out) => [tar(link("b", out), link("evil", "b"), file("evil/pwned"))],
    inside,
  ),
  image(
    "a file through a link of the layer below",
    (out) => [tar(link("evil", out)), tar(file("evil/pwned"))],
    inside,
  ),
  image(
    "a link to the root of the machine",
    () => [tar(link("evil", "/"), file("evil/pwned"))],
    inside,
  ),
  image("a link to itself", () => [tar(link("evil", "evil"), file("evil/pwned"))], inside),
  image("a further name of a file outside", (out) => [tar(hard("x", `${out}/canary`))], {
    refused: /not there/,
  }),
  image(
    "a further name above the root",
    (out) => [tar(hard("x", `../../../../../..${out}/canary`))],
    {
      refused: /leads out/,
    },
  ),
  image(
    "a further name through a link outside",
    (out) => [tar(link("evil", out), hard("x", "evil/canary"))],
    { refused: /not there/ },
  ),
  image(
    "a further name of a link, then a file in its place",
    (out) => [tar(link("l", `${out}/canary`), hard("h", "l"), file("h"))],
    { tree: { h: "file", l: "link" } },
  ),
  image("a further name of a directory", () => [tar(folder("d"), hard("x", "d"))], {
    refused: /directory/,
  }),
  image("a further name of itself", () => [tar(file("x"), hard("x", "x"))], {
    tree: { x: "file" },
  }),
  image("a further name of what comes later", () => [tar(hard("x", "y"), file("y"))], {
    refused: /not there/,
  }),
  image("a file in the place of a link", (out) => [tar(link("x", `${out}/canary`), file("x"))], {
    tree: { x: "file" },
  }),
  image(
    "the mode of a directory that is a link",
    (out) => [tar(link("evil", out), { ...folder("evil"), mode: 0o777 })],
    { tree: { evil: "directory" } },
  ),
  image(
    "a directory in the place of a link",
    (out) => [tar(link("evil", out), folder("evil"), file("evil/pwned"))],
    inside,
  ),
  image("a link in the place of the root", (out) => [tar(link("./", out))], { refused: /root/ }),
  image("a file in the place of the root", () => [tar(file("./."))], { refused: /root/ }),
  image("a path above the root", () => [tar(file("../pwned"))], { refused: /leads out/ }),
  image("a path above the root further on", () => [tar(file("a/b/../../../pwned"))], {
    refused: /leads out/,
  }),
  image("an absolute path above the root", () => [tar(file("/../pwned"))], {
    refused: /leads out/,
  }),
  image("an absolute path", (out) => [tar(file(`${out}/canary`))], {}),
  image("many slashes", (out) => [tar(file(`//..//${out}/canary`))], { refused: /leads out/ }),
  image(
    "a path above the root by pax",
    () => [tar(paxEntry([["path", "../../pwned"]]), file("x"))],
    {
      refused: /leads out/,
    },
  ),
  image("a path above the root by GNU", () => [tar(gnuLongName("../../pwned"), file("x"))], {
    refused: /leads out/,
  }),
  image("a path above the root by its prefix", () => [tar({ ...file("pwned"), prefix: "../.." })], {
    refused: /leads out/,
  }),
  image(
    "a target above the root by pax",
    (out) => [tar(paxEntry([["linkpath", `../../../../..${out}/canary`]]), hard("x", "y"))],
    { refused: /leads out/ },
  ),
  image(
    "a target above the root by GNU",
    (out) => [tar(gnuLongName(`../../../../..${out}/canary`, "K"), hard("x", "y"))],
    { refused: /leads out/ },
  ),
  image("a link without a target", () => [tar(link("x", ""))], { refused: /link to nothing/ }),
];

/** Files that are written into each image. */
const OWN_FILES: readonly HostileImage[] = [
  "etc/passwd",
  "etc/group",
  "etc/shadow",
  "etc/hosts",
  "etc/resolv.conf",
  "etc/hostname",
  "etc/machine-id",
  "etc/sudoers",
  "etc/os-release",
].map((path) =>
  image(`/${path} is a link outside`, (out) => [tar(link(path, `${out}/canary`))], {}),
);

const OWN_FOLDERS: readonly HostileImage[] = [
  "etc/sudoers.d",
  "etc/ssl",
  "etc/ssl/certs",
  "etc/skel",
  "home/user",
  "usr/local",
  "usr/local/lib",
  "usr/bin",
].map((path) => image(`/${path} is a link outside`, (out) => [tar(link(path, out))], {}));

const SYSTEM_FOLDERS: readonly HostileImage[] = [
  "dev",
  "etc",
  "home",
  "mnt",
  "proc",
  "root",
  "run",
  "sys",
  "tmp",
  "usr",
  "var",
].flatMap((path) => [
  image(`/${path} is a link`, (out) => [tar(link(path, out))], { refused: /no real directory/ }),
  image(`/${path} is a file`, () => [tar(file(path))], { refused: /no real directory/ }),
]);

const CHANGES: readonly HostileImage[] = [
  image(
    "a directory becomes a link between entries",
    (out) => [tar(folder("evil"), file("evil/a"), link("evil", out), file("evil/pwned"))],
    { tree: { "evil/pwned": "file", "evil/a": "missing" } },
  ),
  image(
    "a directory becomes a link and a directory again",
    (out) => [
      tar(folder("evil"), link("evil", out), folder("evil"), link("evil", out), file("evil/pwned")),
    ],
    inside,
  ),
  image(
    "a directory becomes a link in the next layer",
    (out) => [tar(folder("evil"), file("evil/a")), tar(link("evil", out), file("evil/pwned"))],
    { tree: { "evil/pwned": "file", "evil/a": "missing" } },
  ),
  image(
    "a directory is removed and becomes a link",
    (out) => [tar(folder("evil")), tar(file(".wh.evil"), link("evil", out), file("evil/pwned"))],
    inside,
  ),
  image(
    "a parent becomes a link",
    (out) => [tar(folder("a/b"), file("a/b/c"), link("a", out), file("a/b/pwned"))],
    { tree: { "a/b/pwned": "file", "a/b/c": "missing" } },
  ),
  image("a file becomes a directory", () => [tar(file("evil"), file("evil/pwned"))], inside),
  image("a file below a file below a file", () => [tar(file("a"), file("a/b"), file("a/b/c"))], {
    tree: { "a/b/c": "file" },
  }),
  image("/bin becomes a link outside", (out) => [tar(link("bin", out))], { refused: /no shell/ }),
  image("/bin/sh is a loop", () => [tar(link("bin/sh", "bash"), link("bin/bash", "sh"))], {
    refused: /no shell/,
  }),
  image("/bin/sh is a script", () => [tar({ ...file("bin/sh", "#!/bin/sh"), mode: 0o755 })], {
    refused: /no program/,
  }),
  image(
    "/bin/sh is for another machine",
    () => [
      tar({
        path: "bin/sh",
        mode: 0o755,
        data: Buffer.from("7f454c46020101000000000000000000020016000000", "hex"),
      }),
    ],
    { refused: /not for/ },
  ),
  image("/bin/sh cannot be run", () => [tar(file("bin/sh"))], { refused: /no program/ }),
];

const MARKS: readonly HostileImage[] = [
  image("a mark of what is not there", () => [tar(file(".wh.none"), file("a/b/.wh.none"))], {
    tree: { a: "missing" },
  }),
  image("a mark through a link", (out) => [tar(link("evil", out), file("evil/.wh.canary"))], {
    tree: { evil: "link" },
  }),
  image(
    "an opaque mark through a link",
    (out) => [tar(link("evil", out)), tar(file("evil/.wh..wh..opq"))],
    { tree: { evil: "link" } },
  ),
  image("a mark of nothing", () => [tar(file(".wh."))], { refused: /removes nothing/ }),
  image("a mark of itself", () => [tar(file("a/.wh.."))], { refused: /removes nothing/ }),
  image("a mark of its parent", () => [tar(file("a/.wh..."))], { refused: /removes nothing/ }),
  image("a mark above the root", () => [tar(file("../.wh.etc"))], { refused: /leads out/ }),
  image("a mark as a directory on the way", () => [tar(file(".wh.etc/passwd"))], {
    refused: /reserved/,
  }),
  image("a mark on the way of a mark", () => [tar(file(".wh.a/.wh.b"))], { refused: /reserved/ }),
  image("an opaque root", () => [tar(file(".wh..wh..opq"))], { refused: /no shell/ }),
  image("a mark of /etc", () => [tar(file(".wh.etc"))], { tree: { "etc/passwd": "file" } }),
  image("a mark of what came with it", () => [tar(file("x"), file(".wh.x"))], {
    tree: { x: "file" },
  }),
  image(
    "an opaque mark after what came with it",
    () => [tar(file("d/old")), tar(file("d/new"), file("d/.wh..wh..opq"))],
    { tree: { "d/new": "file", "d/old": "missing" } },
  ),
  image("a mark with data", () => [tar(file("a")), tar(file(".wh.a", "x".repeat(2_000)))], {
    tree: { a: "missing" },
  }),
  image("a mark that is a link", (out) => [tar(file("a")), tar(link(".wh.a", out))], {
    tree: { a: "missing", ".wh.a": "missing" },
  }),
  image("a mark that is a directory", () => [tar(file("a")), tar(folder(".wh.a"))], {
    tree: { a: "missing", ".wh.a": "missing" },
  }),
  image("marks of another file system", () => [tar(file(".wh..wh.plnk"), file(".wh..wh.aufs"))], {
    tree: { ".wh..wh.aufs": "missing" },
  }),
  image("a further name that is a mark", () => [tar(file("a"), hard("b/.wh.a", "a"))], {
    tree: { a: "file", b: "missing" },
  }),
];

const device = (path: string, type: string, major = 1) => ({
  path,
  type,
  patch: [[329, `${major.toString(8).padStart(7, "0")}\0`]] as const,
});

const DEVICES: readonly HostileImage[] = [
  image("a character device", () => [tar(device("null", "3"))], { tree: { null: "missing" } }),
  image("a block device", () => [tar(device("disk", "4", 8))], { tree: { disk: "missing" } }),
  image("a device that an overlay takes for a mark", () => [tar(device("etc/passwd", "3", 0))], {
    tree: { "etc/passwd": "file" },
  }),
  image("a named pipe", () => [tar(device("pipe", "6"))], { tree: { pipe: "missing" } }),
  image("a device in /dev", () => [tar(device("dev/sda", "4", 8))], {
    tree: { "dev/sda": "missing" },
  }),
  image("a further name of a device", () => [tar(device("d", "3"), hard("x", "d"))], {
    refused: /not there/,
  }),
  image("a device with data", () => [tar({ ...device("d", "3"), data: "harm" })], {
    refused: /has data/,
  }),
  image("a link with data", () => [tar({ ...link("l", "x"), data: "harm" })], {
    refused: /has data/,
  }),
];

const DAMAGED: readonly HostileImage[] = [
  image("an archive that ends in a file", () => [tarHeader({ path: "x", size: 10_000 })], {
    refused: /cut off/,
  }),
  image("an archive that ends in a header", () => [tarEntry(file("x")).subarray(0, 100)], {
    refused: /cut off/,
  }),
  image("an archive without its end", () => [tarEntry(file("x"))], { tree: { x: "file" } }),
  image("an empty archive", () => [Buffer.alloc(0)], {}),
  image(
    "an archive with half its end",
    () => [Buffer.concat([tarEntry(file("x")), TAR_END.subarray(512)])],
    { tree: { x: "file" } },
  ),
  image(
    "two archives one after the other",
    (out) => [Buffer.concat([tar(file("x")), tar(link("evil", out), file("evil/pwned"))])],
    { refused: /follows the end/ },
  ),
  image(
    "words after the end",
    () => [Buffer.concat([tar(file("x")), Buffer.from("harm".repeat(300))])],
    { refused: /follows the end|cut off/ },
  ),
  image("no archive at all", () => [Buffer.from("harm".repeat(1_000))], {
    refused: /checksum|octal/,
  }),
  image("a false checksum", () => [tar(tarHeader({ path: "x", checksum: "000000\0 " }))], {
    refused: /checksum/,
  }),
  image("an unknown type", () => [tar({ path: "x", type: "Z" })], { refused: /unknown type/ }),
  image(
    "a number that is not octal",
    () => [tar({ ...file("x"), size: Buffer.from("99999999999\0") })],
    { refused: /octal/ },
  ),
  image("a negative size", () => [tar({ ...file("x"), size: Buffer.alloc(12, 0xff) })], {
    refused: /negative/,
  }),
  image(
    "a size beyond all numbers",
    () => [
      tar({ ...file("x"), size: Buffer.concat([Buffer.from([0x80]), Buffer.alloc(11, 0xff)]) }),
    ],
    { refused: /too large/ },
  ),
  image("a record of pax without a length", () => [pax(Buffer.from("path=x\n"))], {
    refused: /no length/,
  }),
  image("a record of pax that is longer than all", () => [pax(Buffer.from("99 path=x\n"))], {
    refused: /no length/,
  }),
  image("a record of pax without an end", () => [pax(Buffer.from("9 path=xy"))], {
    refused: /cut off/,
  }),
  image("a record of pax of length 0", () => [pax(Buffer.from("0 path=x\n"))], {
    refused: /no length/,
  }),
  image("a NUL in a path", () => [tar(paxEntry([["path", "x\0y"]]), file("x"))], {
    refused: /NUL/,
  }),
  image("a NUL in a target", () => [tar(paxEntry([["linkpath", "x\0y"]]), link("x", "y"))], {
    refused: /link to nothing/,
  }),
  image(
    "more bytes of attributes than a file can have",
    () => [tar(paxEntry([["SCHILY.xattr.user.big", "x".repeat(60_000)]]), file("x"))],
    { refused: /path "\.\/x" of the image has more attributes than a file can have here/ },
  ),
  image(
    "more attributes than a directory can have",
    () => {
      const attributes = Array.from({ length: 300 }, (_, index) => `SCHILY.xattr.user.${index}`);
      return [tar(paxEntry(attributes.map((key) => [key, ""])), folder("d"))];
    },
    { refused: /path "\.\/d" of the image has more attributes than a file can have here/ },
  ),
  image(
    "more names than a file can have",
    () => [
      tar(file("x"), ...Array.from({ length: 65_536 }, (_, index) => hard(`h/${index}`, "x"))),
    ],
    { refused: /path "\.\/h\/[0-9]+" of the image is one name too many of a file/ },
  ),
  image("a size of pax that is none", () => [tar(paxEntry([["size", "-1"]]), file("x"))], {
    refused: /number of pax/,
  }),
  image("a time of pax that is none", () => [tar(paxEntry([["mtime", "NaN"]]), file("x"))], {
    refused: /time of pax/,
  }),
  image("a name of 256 bytes", () => [tar(gnuLongName("n".repeat(256)), file("x"))], {
    refused: /too long/,
  }),
  image("a path of 5,000 bytes", () => [tar(gnuLongName("d/".repeat(2_500)), file("x"))], {
    refused: /too long/,
  }),
  image("a name of 100,000 bytes", () => [tar(gnuLongName("n".repeat(100_000)), file("x"))], {
    refused: /too long/,
  }),
];

function pax(data: Buffer): Buffer {
  return tar({ path: "p", type: "x", data }, file("x"));
}

export const HOSTILE_IMAGES: readonly HostileImage[] = [
  ...LINKS,
  ...OWN_FILES,
  ...OWN_FOLDERS,
  ...SYSTEM_FOLDERS,
  ...CHANGES,
  ...MARKS,
  ...DEVICES,
  ...DAMAGED,
];
