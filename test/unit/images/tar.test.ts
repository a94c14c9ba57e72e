/** Every dialect of tar is read as the program that wrote it meant it. */

import { expect, test } from "vitest";
import { createByteReader } from "../../../src/images/byte-reader.ts";
import { readTar, type TarEntry } from "../../../src/images/tar.ts";
import {
  gnuLongName,
  paxEntry,
  tar,
  tarEntry,
  type TarItem,
} from "../../support/images/tar-writer.ts";

/** The entries with their data, which come in pieces of an odd length. */
async function read(archive: Buffer): Promise<(TarEntry & { readonly data: string })[]> {
  async function* pieces(): AsyncGenerator<Buffer> {
    for (let at = 0; at < archive.length; at += 333) yield archive.subarray(at, at + 333);
  }
  const reader = createByteReader(pieces());
  const entries: (TarEntry & { readonly data: string })[] = [];
  await readTar(reader, async (entry) => {
    const data = (await reader.require(entry.dataBytes)).toString("latin1");
    entries.push({ ...entry, data });
  });
  return entries;
}

async function readOne(...items: readonly (TarItem | Buffer)[]) {
  const [first] = await read(tar(...items));
  return first;
}

test.for<[string, (TarItem | Buffer)[], Partial<TarEntry> & { data?: string }]>([
  [
    "the seventh edition",
    [{ path: "a/b", type: "\0", form: "v7", data: "x", mode: 0o755, uid: 7, gid: 8, mtime: 9 }],
    { kind: "file", path: "a/b", data: "x", mode: 0o755, uid: 7, gid: 8, mtimeSeconds: 9 },
  ],
  [
    "a directory of the seventh edition",
    [{ path: "a/", type: "\0", form: "v7" }],
    { kind: "directory", path: "a/" },
  ],
  ["a prefix of ustar", [{ path: "c", prefix: "a/b" }], { path: "a/b/c" }],
  ["no prefix of GNU", [{ path: "c", prefix: "15000000000", form: "gnu" }], { path: "c" }],
  ["a name of 100 bytes", [{ path: "n".repeat(100) }], { path: "n".repeat(100) }],
  [
    "a long name of GNU",
    [gnuLongName("l".repeat(200)), { path: "short" }],
    { path: "l".repeat(200) },
  ],
  [
    "a long target of GNU",
    [gnuLongName("t".repeat(200), "K"), { path: "x", type: "2", link: "short" }],
    { kind: "symlink", target: "t".repeat(200) },
  ],
  [
    "a path of pax",
    [paxEntry([["path", "p".repeat(300)]]), { path: "short" }],
    { path: "p".repeat(300) },
  ],
  [
    "the later of two records",
    [
      paxEntry([
        ["path", "one"],
        ["path", "two"],
      ]),
      { path: "x" },
    ],
    { path: "two" },
  ],
  ["a time of pax", [{ path: "x", pax: [["mtime", "123.75"]] }], { mtimeSeconds: 123.75 }],
  ["a time before 1970", [{ path: "x", pax: [["mtime", "-1.5"]] }], { mtimeSeconds: -1.5 }],
  [
    "owners of pax",
    [
      {
        path: "x",
        pax: [
          ["uid", "70000"],
          ["gid", "80000"],
        ],
      },
    ],
    { uid: 70_000, gid: 80_000 },
  ],
  [
    "a size of pax",
    [{ path: "x", data: "abc", size: 0, pax: [["size", "3"]] }],
    { size: 3, data: "abc" },
  ],
  [
    "a record for the whole archive",
    [paxEntry([["path", "all"]], "g"), { path: "x" }],
    { path: "x" },
  ],
  ["records of Solaris", [paxEntry([["path", "sun"]], "X"), { path: "x" }], { path: "sun" }],
  ["a binary size of GNU", [{ path: "x", data: "abc", size: binary(3) }], { size: 3, data: "abc" }],
  [
    "a number between blanks",
    [{ path: "x", data: "abc", size: Buffer.from("         3 \0") }],
    { size: 3 },
  ],
  [
    "a number without an end",
    [{ path: "x", data: "abc", size: Buffer.from("000000000003") }],
    { size: 3 },
  ],
  ["a contiguous file", [{ path: "x", type: "7", data: "abc" }], { kind: "file", data: "abc" }],
  ["a name that is no text", [{ path: "\xff\xfe\n" }], { path: "\xff\xfe\n" }],
  ["a further name", [{ path: "x", type: "1", link: "y" }], { kind: "hardlink", target: "y" }],
  [
    "a directory with a size",
    [{ path: "d/", type: "5", size: 4_096 }],
    { kind: "directory", size: 0, dataBytes: 0 },
  ],
  [
    "a label and a list before it",
    [{ path: "label", type: "V" }, { path: "list", type: "D", data: "Yx\0" }, { path: "x" }],
    { path: "x" },
  ],
])("%s", async ([, items, expected]) => {
  expect(await readOne(...items)).toMatchObject(expected);
});

function binary(value: number): Buffer {
  const field = Buffer.alloc(12);
  field[0] = 0x80;
  field.writeUInt32BE(value, 8);
  return field;
}

test("a header that sums signed bytes is taken, too", async () => {
  const entry = tarEntry({ path: "\xff" });
  const sum = entry.subarray(0, 512).reduce((total, byte, at) => {
    const counted = at >= 148 && at < 156 ? 0x20 : byte;
    return total + (counted > 127 ? counted - 256 : counted);
  }, 0);
  entry.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
  expect(await readOne(entry)).toMatchObject({ path: "\xff" });
});

test("attributes are bytes, of both programs that write them", async () => {
  const entry = await readOne({
    path: "x",
    pax: [
      ["SCHILY.xattr.user.a", "\x00\xff="],
      ["LIBARCHIVE.xattr.user.b", Buffer.from("value").toString("base64")],
    ],
  });
  expect(entry?.attributes).toEqual([
    ["user.a", Buffer.from([0, 0xff, 0x3d])],
    ["user.b", Buffer.from("value")],
  ]);
});

const extents = [
  { offset: 0, size: 3 },
  { offset: 1_000, size: 2 },
];
const pairs = (list: readonly { offset: number; size: number }[]) =>
  list
    .map(({ offset, size }) =>
      [offset, size].map((value) => `${value.toString(8).padStart(11, "0")}\0`).join(""),
    )
    .join("");
const padTo = (text: string) =>
  Buffer.concat([Buffer.from(text), Buffer.alloc(512 - Buffer.byteLength(text))]);

test.for<[string, TarItem]>([
  [
    "the old form of GNU",
    {
      path: "s",
      type: "S",
      form: "gnu",
      data: "abcde",
      patch: [
        [386, pairs(extents)],
        [483, "00000002000\0"],
      ],
    },
  ],
  [
    "version 0.0",
    {
      path: "s",
      data: "abcde",
      pax: [
        ["GNU.sparse.size", "1024"],
        ["GNU.sparse.numblocks", "2"],
        ["GNU.sparse.offset", "0"],
        ["GNU.sparse.numbytes", "3"],
        ["GNU.sparse.offset", "1000"],
        ["GNU.sparse.numbytes", "2"],
      ],
    },
  ],
  [
    "version 0.1",
    {
      path: "x",
      data: "abcde",
      pax: [
        ["GNU.sparse.size", "1024"],
        ["GNU.sparse.name", "s"],
        ["GNU.sparse.map", "0,3,1000,2"],
      ],
    },
  ],
  [
    "version 1.0",
    {
      path: "x",
      data: Buffer.concat([padTo("2\n0\n3\n1000\n2\n"), Buffer.from("abcde")]),
      pax: [
        ["GNU.sparse.major", "1"],
        ["GNU.sparse.minor", "0"],
        ["GNU.sparse.name", "s"],
        ["GNU.sparse.realsize", "1024"],
      ],
    },
  ],
])("a sparse file in %s", async ([, item]) => {
  expect(await readOne(item)).toMatchObject({
    path: "s",
    size: 1_024,
    data: "abcde",
    sparse: { extents, size: 1_024 },
  });
});

test("a sparse file of the old form goes on in further blocks", async () => {
  const many = Array.from({ length: 30 }, (_, index) => ({ offset: index * 10, size: 1 }));
  const header = tarEntry({
    path: "s",
    type: "S",
    form: "gnu",
    size: 30,
    patch: [
      [386, pairs(many.slice(0, 4))],
      [482, "\x01"],
      [483, "00000001000\0"],
    ],
  });
  const blocks = [many.slice(4, 25), many.slice(25)].map((part, index) => {
    const block = padTo(pairs(part));
    block[504] = index === 0 ? 1 : 0;
    return block;
  });
  const entry = await readOne(Buffer.concat([header, ...blocks, padTo("d".repeat(30))]));
  expect(entry?.sparse?.extents).toEqual(many);
});

test.for<[string, [string, string][], RegExp]>([
  ["parts that overlap", [["GNU.sparse.map", "0,3,2,2"]], /overlap/],
  ["parts that go back", [["GNU.sparse.map", "10,3,0,2"]], /overlap/],
  ["parts beyond the file", [["GNU.sparse.map", "0,3,2000,2"]], /does not fit/],
  ["parts with more than the data", [["GNU.sparse.map", "0,3,1000,9"]], /does not fit/],
  ["half a part", [["GNU.sparse.map", "0,3,1000"]], /not valid/],
  ["a part that is no number", [["GNU.sparse.map", "0,x"]], /number of pax/],
  [
    "another version",
    [
      ["GNU.sparse.major", "2"],
      ["GNU.sparse.minor", "0"],
    ],
    /unknown version/,
  ],
])("a sparse file with %s is refused", async ([, records, reason]) => {
  const item: TarItem = {
    path: "s",
    data: "abcde",
    pax: [["GNU.sparse.size", "1024"], ...records],
  };
  await expect(readOne(item)).rejects.toThrow(reason);
});

test("headers before one entry have a bound together", async () => {
  const comment = paxEntry([["comment", "x".repeat(900_000)]]);
  await expect(readOne(comment, comment, { path: "a" })).resolves.toMatchObject({ path: "a" });
  await expect(readOne(comment, comment, comment, { path: "a" })).rejects.toThrow(/too much/);
  const small = Array.from({ length: 4_500 }, () => paxEntry([["comment", "x"]]));
  await expect(readOne(...small, { path: "a" })).rejects.toThrow(/too much/);
});
