/** Images of the tests: pushed to a registry on loopback, which Debian's docker-registry serves. */

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { z } from "../../../src/common/schema.ts";
import { REGISTRY } from "./node-config.ts";
import { startProgram, type Program } from "./process.ts";

const START_MS = 20_000;
const POLL_MS = 100;

export async function startRegistry(directory: string): Promise<Program> {
  const config = join(directory, "registry.yml");
  const lines = [
    "version: 0.1",
    "log: {level: warn}",
    `storage: {filesystem: {rootdirectory: ${join(directory, "registry")}}, delete: {enabled: true}}`,
    `http: {addr: ":5000"}`,
  ];
  writeFileSync(config, `${lines.join("\n")}\n`);
  const program = startProgram({
    directory,
    name: "registry",
    words: ["docker-registry", "serve", config],
  });
  const endMs = performance.now() + START_MS;
  while (performance.now() < endMs) {
    const reply = await fetch(`http://${REGISTRY}/v2/`).catch(() => undefined);
    if (reply?.ok) return program;
    await delay(POLL_MS);
  }
  await program[Symbol.asyncDispose]();
  throw new Error("docker-registry does not answer");
}

/** Pushes an archive in the OCI layout, or a directory of one. */
export function pushImage(source: string, name: string): string {
  const image = `${REGISTRY}/${name}`;
  const words = [
    "copy",
    "--insecure-policy",
    "--dest-tls-verify=false",
    source,
    `docker://${image}`,
  ];
  execFileSync("skopeo", words, { stdio: "inherit" });
  return image;
}

/** Adds a tree as the top layer of an image in an archive; returns the layout. */
export function addLayer(archive: string, tree: string, directory: string): string {
  const layout = join(directory, "extended");
  mkdirSync(layout, { recursive: true });
  execFileSync("tar", ["--extract", "--file", archive, "--directory", layout]);
  const blobs = join(layout, "blobs/sha256");
  const read = (digest: string): unknown =>
    JSON.parse(readFileSync(join(blobs, digest.replace("sha256:", "")), "utf8"));
  const index = indexSchema.parse(JSON.parse(readFileSync(join(layout, "index.json"), "utf8")));
  const [entry] = index.manifests;
  if (entry === undefined) throw new Error(`${archive} has no image`);
  const manifest = manifestSchema.parse(read(entry.digest));
  const config = configSchema.parse(read(manifest.config.digest));
  const layer = putBlob(blobs, packTree(tree));
  config.rootfs.diff_ids.push(layer.digest);
  const changed = {
    ...manifest,
    config: { ...manifest.config, ...putJson(blobs, config) },
    layers: [...manifest.layers, { mediaType: `${TYPE}.layer.v1.tar`, ...layer }],
  };
  const manifests = [{ ...entry, ...putJson(blobs, changed) }];
  writeFileSync(join(layout, "index.json"), JSON.stringify({ ...index, manifests }));
  return layout;
}

const TYPE = "application/vnd.oci.image";
const entrySchema = z.looseObject({ digest: z.string(), size: z.number() });
const indexSchema = z.looseObject({ manifests: z.array(entrySchema) });
const manifestSchema = z.looseObject({ config: entrySchema, layers: z.array(entrySchema) });
const configSchema = z.looseObject({
  rootfs: z.looseObject({ diff_ids: z.array(z.string()) }),
});

function packTree(tree: string): Buffer {
  return execFileSync("tar", ["--create", "--owner=0", "--group=0", "--directory", tree, "."], {
    maxBuffer: MAX_LAYER_BYTES,
  });
}

const MAX_LAYER_BYTES = 128 * 1024 * 1024;

function putBlob(blobs: string, bytes: Buffer) {
  const hex = createHash("sha256").update(bytes).digest("hex");
  writeFileSync(join(blobs, hex), bytes);
  return { digest: `sha256:${hex}`, size: bytes.length };
}

function putJson(blobs: string, value: unknown) {
  return putBlob(blobs, Buffer.from(JSON.stringify(value)));
}

/** A layout with one program as its only file. */
export function writeProgramImage(directory: string, program: string): string {
  const layout = join(directory, "layout");
  const blobs = join(layout, "blobs/sha256");
  mkdirSync(blobs, { recursive: true });
  const tree = join(directory, "tree");
  mkdirSync(tree);
  writeFileSync(join(tree, "program"), readFileSync(program), { mode: 0o755 });
  const layer = putBlob(blobs, packTree(tree));
  const config = putJson(blobs, {
    architecture: process.arch === "arm64" ? "arm64" : "amd64",
    os: "linux",
    config: { Entrypoint: ["/program"] },
    rootfs: { type: "layers", diff_ids: [layer.digest] },
  });
  const manifest = putJson(blobs, {
    schemaVersion: 2,
    mediaType: `${TYPE}.manifest.v1+json`,
    config: { mediaType: `${TYPE}.config.v1+json`, ...config },
    layers: [{ mediaType: `${TYPE}.layer.v1.tar`, ...layer }],
  });
  const entry = { mediaType: `${TYPE}.manifest.v1+json`, ...manifest };
  writeFileSync(join(layout, "oci-layout"), '{"imageLayoutVersion":"1.0.0"}');
  writeFileSync(
    join(layout, "index.json"),
    JSON.stringify({ schemaVersion: 2, manifests: [entry] }),
  );
  return layout;
}
