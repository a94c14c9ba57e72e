/** Writes OCI layouts of archives that a test made, also ones whose documents do not fit. */

import { createHash } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { gzipSync, zstdCompressSync } from "node:zlib";
import { tar, type TarItem } from "./tar-writer.ts";

const SHELL = "/bin/sh";
const MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json";
const ARCHITECTURES: Readonly<Record<string, string>> = { x64: "amd64", arm64: "arm64" };

const OWN_ARCHITECTURE: string = ARCHITECTURES[process.arch] ?? process.arch;

export interface LayoutOptions {
  /** Archives, the lowest first. */
  readonly layers: readonly Buffer[];
  readonly form?: "gzip" | "zstd" | "plain";
  /** The part `config` of the configuration. */
  readonly config?: Readonly<Record<string, unknown>>;
  readonly architecture?: string;
  /** Changes of the documents before they are written. */
  readonly diffIds?: readonly string[];
  /** Changes of a compressed layer after its digest was taken. */
  spoil?(blob: Buffer, index: number): Buffer;
  /** Changes of a compressed layer before its digest is taken. */
  pack?(blob: Buffer, index: number): Buffer;
}

export interface WrittenImage {
  readonly layout: string;
  readonly digest: string;
}

/** The layout in a directory that is made. */
export async function writeLayout(layout: string, options: LayoutOptions): Promise<WrittenImage> {
  await mkdir(join(layout, "blobs/sha256"), { recursive: true });
  const { config = {}, architecture = OWN_ARCHITECTURE } = options;
  const layers = [];
  for (const [index, archive] of options.layers.entries()) {
    const packed = compress(archive, options.form ?? "gzip");
    const blob = options.pack?.(packed, index) ?? packed;
    layers.push(await putBlob(layout, blob, options.spoil?.(blob, index)));
  }
  const diffIds = options.diffIds ?? options.layers.map((archive) => digestOf(archive));
  const facts = {
    architecture,
    os: "linux",
    config,
    rootfs: { type: "layers", diff_ids: diffIds },
  };
  const configBlob = await putBlob(layout, Buffer.from(JSON.stringify(facts)));
  const manifest = {
    schemaVersion: 2,
    mediaType: MANIFEST_TYPE,
    config: { ...configBlob, mediaType: "application/vnd.oci.image.config.v1+json" },
    layers: layers.map((layer) => ({ ...layer, mediaType: typeOf(options.form) })),
  };
  const top = await putBlob(layout, Buffer.from(JSON.stringify(manifest)));
  await writeIndex(layout, [{ ...top, mediaType: manifest.mediaType }]);
  return { layout, digest: top.digest };
}

/** An index of two platforms, of which this machine's is not the first; its variable says `own`. */
export async function writePlatforms(layout: string, layer: Buffer): Promise<WrittenImage> {
  const write = async (architecture: string, config: Readonly<Record<string, unknown>>) => {
    const { digest } = await writeLayout(layout, { layers: [layer], architecture, config });
    const manifest = await readFile(join(layout, "blobs/sha256", digest.slice("sha256:".length)));
    const platform = { os: "linux", architecture };
    return { ...(await putBlob(layout, manifest)), platform, mediaType: MANIFEST_TYPE };
  };
  const own = await write(OWN_ARCHITECTURE, { Env: ["PLATFORM=own"] });
  const foreign = await write("s390x", {});
  const mediaType = "application/vnd.oci.image.index.v1+json";
  const index = { schemaVersion: 2, mediaType, manifests: [foreign, own] };
  const top = await putBlob(layout, Buffer.from(JSON.stringify(index)));
  await writeIndex(layout, [{ ...top, mediaType }]);
  return { layout, digest: top.digest };
}

export async function writeIndex(layout: string, manifests: readonly unknown[]): Promise<void> {
  await writeFile(join(layout, "oci-layout"), '{"imageLayoutVersion":"1.0.0"}');
  await writeFile(join(layout, "index.json"), JSON.stringify({ schemaVersion: 2, manifests }));
}

function typeOf(form: LayoutOptions["form"] = "gzip"): string {
  const ending = form === "plain" ? "" : `+${form}`;
  return `application/vnd.oci.image.layer.v1.tar${ending}`;
}

function compress(archive: Buffer, form: "gzip" | "zstd" | "plain"): Buffer {
  if (form === "plain") return archive;
  return form === "gzip" ? gzipSync(archive, { level: 1 }) : zstdCompressSync(archive);
}

/** Writes a blob under its digest, or another one under that. */
export async function putBlob(layout: string, blob: Buffer, written: Buffer = blob) {
  const digest = digestOf(blob);
  await writeFile(join(layout, "blobs/sha256", digest.slice("sha256:".length)), written);
  return { digest, size: written.length };
}

export function digestOf(data: Buffer): string {
  return `sha256:${createHash("sha256").update(data).digest("hex")}`;
}

/** A layer with a shell of this machine and nothing else: the least that is no reason to refuse. */
export async function shellLayer(): Promise<Buffer> {
  const shell = await readFile(SHELL);
  return tar(
    { path: "etc/", type: "5", mode: 0o755 },
    { path: "etc/passwd", data: "root:x:0:0:root:/root:/bin/sh\n" },
    { path: "etc/group", data: "root:x:0:\n" },
    { path: "bin/", type: "5", mode: 0o755 },
    { path: "bin/sh", data: shell, mode: 0o755 } satisfies TarItem,
  );
}
