/** Images in a registry of the test: put there, and unpacked into directories as a runtime does. */

import {
  chmodSync,
  existsSync,
  linkSync,
  lstatSync,
  lutimesSync,
  mkdirSync,
  readdirSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { Readable } from "node:stream";
import { gunzipSync, gzipSync } from "node:zlib";
import { createByteReader } from "../../../src/images/byte-reader.ts";
import { readTar, type TarEntry } from "../../../src/images/tar.ts";
import { digestOf } from "../images/oci-layout.ts";

const MANIFEST = "application/vnd.oci.image.manifest.v1+json";

export interface TestManifest {
  readonly config: { readonly digest: string };
  readonly layers: readonly { readonly digest: string; readonly mediaType: string }[];
}

/** An image of one layer; returns the digest. */
export async function putImage(
  url: string,
  { tag, layer, headers = {} }: { tag: string; layer: Buffer; headers?: Record<string, string> },
): Promise<string> {
  const packed = gzipSync(layer);
  const config = Buffer.from(
    JSON.stringify({
      architecture: "amd64",
      os: "linux",
      config: { Env: ["A=b"], Labels: { kept: "yes" } },
      rootfs: { type: "layers", diff_ids: [digestOf(layer)] },
    }),
  );
  for (const blob of [packed, config]) await putBlob(url, blob, headers);
  const manifest = JSON.stringify({
    schemaVersion: 2,
    mediaType: MANIFEST,
    config: {
      mediaType: "application/vnd.oci.image.config.v1+json",
      digest: digestOf(config),
      size: config.length,
    },
    layers: [
      {
        mediaType: "application/vnd.docker.image.rootfs.diff.tar.gzip",
        digest: digestOf(packed),
        size: packed.length,
      },
    ],
  });
  const reply = await fetch(`${url}/manifests/${tag}`, {
    method: "PUT",
    headers: { ...headers, "content-type": MANIFEST },
    body: manifest,
  });
  if (!reply.ok) throw new Error(`manifest: ${reply.status} ${await reply.text()}`);
  return digestOf(Buffer.from(manifest));
}

async function putBlob(url: string, blob: Buffer, headers: Record<string, string>): Promise<void> {
  const begun = await fetch(`${url}/blobs/uploads/`, { method: "POST", headers });
  const location = new URL(begun.headers.get("location") ?? "", url);
  location.searchParams.set("digest", digestOf(blob));
  const reply = await fetch(location, { method: "PUT", headers, body: new Uint8Array(blob) });
  if (!reply.ok) throw new Error(`blob: ${reply.status} ${await reply.text()}`);
}

export async function readImage(
  url: string,
  reference: string,
  headers: Record<string, string> = {},
) {
  const found = await fetch(`${url}/manifests/${reference}`, {
    headers: { ...headers, accept: MANIFEST },
  });
  if (!found.ok) throw new Error(`manifest of ${reference}: ${found.status}`);
  // The tests put it there, or compare it.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  const manifest = (await found.json()) as TestManifest;
  const blob = async (digest: string) => {
    const reply = await fetch(`${url}/blobs/${digest}`, { headers });
    return Buffer.from(await reply.arrayBuffer());
  };
  const config: unknown = JSON.parse((await blob(manifest.config.digest)).toString("utf8"));
  const layers = await Promise.all(
    manifest.layers.map(async ({ digest }) => gunzipSync(await blob(digest))),
  );
  return { manifest, config, layers };
}

/** As a runtime applies a layer. */
export async function applyLayer(root: string, layer: AsyncIterable<Buffer>): Promise<void> {
  const reader = createByteReader(layer);
  const times: (readonly [string, number])[] = [];
  await readTar(reader, async (entry) => {
    const data = await reader.require(entry.dataBytes);
    const name = Buffer.from(entry.path.replace(/\/$/, ""), "latin1").toString("utf8");
    const path = join(root, name);
    const base = path.slice(dirname(path).length + 1);
    if (base === ".wh..wh..opq") {
      // What the layer has in it comes after it.
      for (const old of readdirSync(dirname(path))) {
        erase(join(dirname(path), old));
      }
      return;
    }
    if (base.startsWith(".wh.")) {
      erase(join(dirname(path), base.slice(4)));
      return;
    }
    put(root, path, { entry, data });
    if (entry.kind !== "hardlink") times.push([path, entry.mtimeSeconds]);
  });
  for (const [path, seconds] of times.toReversed()) lutimesSync(path, seconds, seconds);
}

export function toStream(data: Buffer): AsyncIterable<Buffer> {
  return Readable.from([data]);
}

/** A link that leads nowhere as well: `rmSync` of Node 24.9 leaves it. */
function erase(path: string): void {
  const isLink = lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true;
  if (isLink) unlinkSync(path);
  else rmSync(path, { recursive: true, force: true });
}

function put(
  root: string,
  path: string,
  { entry, data }: { readonly entry: TarEntry; readonly data: Buffer },
): void {
  const known = lstatSync(path, { throwIfNoEntry: false });
  const staysDirectory = known?.isDirectory() === true && entry.kind === "directory";
  if (!staysDirectory) erase(path);
  if (!existsSync(dirname(path))) throw new Error(`${entry.path} comes before its parent`);
  const target = Buffer.from(entry.target, "latin1").toString("utf8");
  if (entry.kind === "directory" && !staysDirectory) mkdirSync(path);
  if (entry.kind === "file") writeFileSync(path, data);
  if (entry.kind === "symlink") symlinkSync(target, path);
  if (entry.kind === "hardlink") linkSync(join(root, target), path);
  if (entry.kind === "file" || entry.kind === "directory") chmodSync(path, entry.mode & 0o7777);
}
