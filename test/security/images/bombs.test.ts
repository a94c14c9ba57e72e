/** R3: images that would fill the disk or the memory, and ones whose bytes are not what they claim. */

import { mkdir, readFile, readdir, rm, symlink, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { SandboxError } from "../../../src/common/errors.ts";
import type { ImageLimits } from "../../../src/images/images.ts";
import { unpackImage } from "../../../src/images/unpack.ts";
import {
  digestOf,
  putBlob,
  shellLayer,
  writeIndex,
  writeLayout,
  type LayoutOptions,
  type WrittenImage,
} from "../../support/images/oci-layout.ts";
import {
  gnuLongName,
  paxEntry,
  tar,
  tarEntry,
  tarHeader,
} from "../../support/images/tar-writer.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const MEBIBYTE = 1024 * 1024;
const shell = shellLayer();

interface Case {
  readonly name: string;
  readonly limits?: Partial<ImageLimits>;
  options(): Partial<LayoutOptions> & Pick<LayoutOptions, "layers">;
  /** Changes the layout once it is written. */
  spoil?(image: WrittenImage): Promise<void>;
  readonly refused: RegExp;
}

async function refusalOf(attack: Case): Promise<string> {
  await using folder = await makeTempFolder();
  const { layers, ...more } = attack.options();
  const layout = join(folder.path, "layout");
  const image = await writeLayout(layout, { layers: [await shell, ...layers], ...more });
  await attack.spoil?.(image);
  await mkdir(join(folder.path, "draft"));
  try {
    const directory = join(folder.path, "draft/root");
    const signal = AbortSignal.timeout(60_000);
    await unpackImage({ layout }, directory, {
      perlDirectory: PERL_DIRECTORY,
      signal,
      limits: attack.limits,
    });
    return "nothing was refused";
  } catch (error) {
    if (!(error instanceof SandboxError)) throw error;
    return `${error.code}: ${error.message}`;
  }
}

const zeros = Buffer.alloc(80 * MEBIBYTE);
const hole = (size: number) => ({
  path: "hole",
  pax: [
    ["GNU.sparse.major", "1"],
    ["GNU.sparse.minor", "0"],
    ["GNU.sparse.realsize", String(size)],
  ] as const,
  data: Buffer.concat([Buffer.from("0\n"), Buffer.alloc(510)]),
});
const manyFiles = (count: number) =>
  tar(...Array.from({ length: count }, (_, index) => ({ path: `f${index}` })));

const BOMBS: readonly Case[] = [
  {
    name: "zeros in gzip",
    limits: { maxRatio: 20 },
    options: () => ({ layers: [tar({ path: "zeros", data: zeros })] }),
    refused: /too large when it is decompressed/,
  },
  {
    name: "zeros in zstd",
    limits: { maxRatio: 20 },
    options: () => ({ layers: [tar({ path: "zeros", data: zeros })], form: "zstd" }),
    refused: /too large when it is decompressed/,
  },
  {
    name: "zeros after the end of the archive",
    limits: { maxRatio: 20 },
    options: () => ({ layers: [Buffer.concat([tar({ path: "x" }), zeros])] }),
    refused: /too large when it is decompressed/,
  },
  {
    name: "zeros in what is passed over",
    limits: { maxRatio: 20 },
    options: () => ({ layers: [tar({ path: "x", type: "g", data: zeros })] }),
    refused: /too large when it is decompressed/,
  },
  {
    name: "a file of an exbibyte of nothing",
    options: () => ({ layers: [tar(hole(2 ** 52))] }),
    refused: /more than [0-9]+ bytes/,
  },
  {
    name: "more bytes than may be",
    limits: { maxBytes: MEBIBYTE },
    options: () => ({ layers: [tar({ path: "x", data: Buffer.alloc(2 * MEBIBYTE) })] }),
    refused: /more than 1048576 bytes/,
  },
  {
    name: "one file again and again",
    limits: { maxBytes: MEBIBYTE },
    options: () => ({
      layers: [
        tar(...Array.from({ length: 20 }, () => ({ path: "x", data: Buffer.alloc(100_000) }))),
      ],
    }),
    refused: /more than 1048576 bytes/,
  },
  {
    name: "more entries than may be",
    limits: { maxEntries: 1_000 },
    options: () => ({ layers: [manyFiles(2_000)] }),
    refused: /more than 1000 entries/,
  },
  {
    name: "marks without end",
    limits: { maxEntries: 1_000 },
    options: () => ({
      layers: [tar(...Array.from({ length: 2_000 }, (_, index) => ({ path: `.wh.f${index}` })))],
    }),
    refused: /more than 1000 entries/,
  },
  {
    name: "deep directories without end",
    limits: { maxEntries: 10_000 },
    options: () => ({
      layers: [
        tar(
          ...Array.from({ length: 20 }, (_, index) =>
            Buffer.concat([
              gnuLongName(`${index}/${"d/".repeat(1_900)}x`),
              tarEntry({ path: "x" }),
            ]),
          ),
        ),
      ],
    }),
    refused: /more than 10000 entries/,
  },
  {
    name: "attributes without end",
    options: () => ({
      layers: [
        tar(
          ...Array.from({ length: 160 }, (_, index) =>
            Buffer.concat([
              paxEntry([[`SCHILY.xattr.user.x`, "v".repeat(900_000)]]),
              tarEntry({ path: `f${index}` }),
            ]),
          ),
        ),
      ],
    }),
    refused: /names are too long|too large when/,
  },
  {
    name: "records of pax of 2 MiB",
    options: () => ({ layers: [tar(paxEntry([["comment", "c".repeat(2 * MEBIBYTE)]]))] }),
    refused: /too much is said of one entry/,
  },
  {
    name: "a sparse file of a million parts",
    options: () => ({
      layers: [
        tar({ ...hole(1_000), data: Buffer.concat([Buffer.from("1000000\n"), Buffer.alloc(504)]) }),
      ],
    }),
    refused: /too many parts/,
  },
  {
    name: "a gzip within a gzip",
    options: () => ({ layers: [gzipSync(tar({ path: "x" }))] }),
    refused: /checksum|octal|cut off/,
  },
];

const blobs = "blobs/sha256";
const CLAIMS: readonly Case[] = [
  {
    name: "a layer with another content",
    options: () => ({
      layers: [tar({ path: "x" })],
      spoil: (blob, index) => (index === 1 ? Buffer.from(blob).fill(1, blob.length - 4) : blob),
    }),
    refused: /does not have that digest/,
  },
  {
    name: "a layer that is longer than it claims",
    options: () => ({
      layers: [tar({ path: "x" })],
      spoil: (blob, index) => (index === 1 ? Buffer.concat([blob, Buffer.from("more")]) : blob),
    }),
    refused: /does not have that digest/,
  },
  {
    name: "a layer that is cut off, with its own digest",
    options: () => ({
      layers: [tar({ path: "x" })],
      pack: (blob, index) => (index === 1 ? blob.subarray(0, -20) : blob),
    }),
    refused: /decompressed|cut off/,
  },
  {
    name: "a layer twice in one blob",
    options: () => ({
      layers: [tar({ path: "x" })],
      pack: (blob, index) => (index === 1 ? Buffer.concat([blob, blob]) : blob),
    }),
    refused: /follows the end|does not hold/,
  },
  {
    name: "rubbish after a layer",
    options: () => ({
      layers: [tar({ path: "x" })],
      pack: (blob, index) => (index === 1 ? Buffer.concat([blob, Buffer.from("rubbish")]) : blob),
      diffIds: [],
    }),
    refused: /other layers|decompressed|does not hold/,
  },
  {
    name: "a layer that is no archive of this configuration",
    options: () => ({
      layers: [tar({ path: "x" })],
      diffIds: [digestOf(Buffer.from("a")), digestOf(Buffer.from("b"))],
    }),
    refused: /does not hold/,
  },
  {
    name: "more layers than the configuration names",
    options: () => ({ layers: [tar({ path: "x" })], diffIds: [digestOf(Buffer.from("a"))] }),
    refused: /other layers/,
  },
  {
    name: "an image for another machine",
    options: () => ({ layers: [], architecture: "s390x" }),
    refused: /another machine/,
  },
  {
    name: "a missing layer",
    options: () => ({ layers: [] }),
    spoil: async ({ layout }) => {
      for (const name of await readdir(join(layout, blobs))) {
        if ((await shell).length > 0) await removeIfLayer(join(layout, blobs, name));
      }
    },
    refused: /is missing/,
  },
  {
    name: "a manifest with another content",
    options: () => ({ layers: [] }),
    spoil: async ({ layout, digest }) => writeFile(join(layout, blobs, digest.slice(7)), "{}"),
    refused: /does not have that digest/,
  },
  ...(
    [
      ["a digest that is a path", "sha256:../../../../../../etc/passwd"],
      ["a digest of another kind", `sha512:${"0".repeat(128)}`],
      ["a digest in capitals", `sha256:${"A".repeat(64)}`],
    ] as const
  ).map(([name, digest]): Case => ({
    name,
    options: () => ({ layers: [] }),
    spoil: ({ layout }) => writeIndex(layout, [{ digest, size: 10 }]),
    refused: /not as it must be/,
  })),
  {
    name: "an index that names itself",
    options: () => ({ layers: [] }),
    spoil: async ({ layout }) => nest(layout, 6),
    refused: /nested too deeply/,
  },
  {
    name: "an index of nothing",
    options: () => ({ layers: [] }),
    spoil: ({ layout }) => writeIndex(layout, []),
    refused: /nothing for linux/,
  },
  {
    name: "an index that is no JSON",
    options: () => ({ layers: [] }),
    spoil: ({ layout }) => writeFile(join(layout, "index.json"), "harm"),
    refused: /not JSON/,
  },
  {
    name: "an index of many megabytes",
    options: () => ({ layers: [] }),
    spoil: ({ layout }) => truncate(join(layout, "index.json"), 100 * MEBIBYTE),
    refused: /too long/,
  },
  {
    name: "a layer that is a device",
    options: () => ({ layers: [] }),
    spoil: async ({ layout }) => {
      for (const name of await readdir(join(layout, blobs))) {
        const path = join(layout, blobs, name);
        if (await removeIfLayer(path)) await symlink("/dev/zero", path);
      }
    },
    refused: /another size/,
  },
  {
    name: "a size that is negative",
    options: () => ({ layers: [] }),
    spoil: ({ layout, digest }) => writeIndex(layout, [{ digest, size: -1 }]),
    refused: /not as it must be/,
  },
  {
    name: "a header that claims more than there is",
    options: () => ({
      layers: [Buffer.concat([tarHeader({ path: "x", size: 8 ** 11 - 1 }), Buffer.alloc(2_048)])],
    }),
    refused: /cut off/,
  },
];

/** The one blob that is no document. */
async function removeIfLayer(path: string): Promise<boolean> {
  const isLayer = (await readFile(path)).subarray(0, 2).toString("hex") === "1f8b";
  if (isLayer) await rm(path);
  return isLayer;
}

async function nest(layout: string, depth: number): Promise<void> {
  let inner: unknown = { digest: `sha256:${"0".repeat(64)}`, size: 1 };
  for (let level = 0; level < depth; level += 1) {
    inner = await putBlob(layout, Buffer.from(JSON.stringify({ manifests: [inner] })));
  }
  await writeIndex(layout, [inner]);
}

test.for(BOMBS)("R3 image bomb: $name", async (bomb) => {
  const refusal = await refusalOf(bomb);
  expect(refusal).toMatch(bomb.refused);
  expect(refusal).toMatch(/^failed_precondition/);
});

test.for(CLAIMS)("R3 image claim: $name", async (claim) => {
  const refusal = await refusalOf(claim);
  expect(refusal).toMatch(claim.refused);
  expect(refusal).toMatch(/^failed_precondition/);
});
