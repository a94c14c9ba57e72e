/**
 * An OCI layout on disk: which manifest of its index is for this machine, and its blobs, each of
 * which is compared with its digest before a byte of it is used.
 * @see https://github.com/opencontainers/image-spec/blob/v1.1.0/image-layout.md
 */

import { createHash } from "node:crypto";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { isCode, SandboxError } from "../common/errors.ts";
import { sha256Hex } from "../common/hash.ts";
import { createJsonGauge } from "../common/json.ts";
import { z } from "../common/schema.ts";
import { quoteUntrusted } from "../common/untrusted-text.ts";

/** As skopeo has it. */
export const MAX_DOCUMENT_BYTES = 4 * 1024 * 1024;
/** Of a document: far more than an image of hundreds of layers has. */
const MAX_VALUES = 65_536;
const MAX_DEPTH = 4;
export const MAX_LAYERS = 256;
export const MAX_MANIFESTS = 1_024;
const PIECE_BYTES = 1024 * 1024;

const digest = z.string().regex(/^sha256:[0-9a-f]{64}$/, "expected a digest of SHA-256");

const descriptorSchema = z.object({
  mediaType: z.string().max(256).default(""),
  digest,
  size: z.int().min(0),
  platform: z
    .object({
      os: z.string().default(""),
      architecture: z.string().default(""),
    })
    .optional(),
});

export type Descriptor = z.infer<typeof descriptorSchema>;

const indexSchema = z.object({ manifests: z.array(descriptorSchema).max(MAX_MANIFESTS) });
const manifestSchema = z.object({
  config: descriptorSchema,
  layers: z.array(descriptorSchema).max(MAX_LAYERS),
});

export type Manifest = z.infer<typeof manifestSchema> & { readonly digest: string };

/** By Node's names of processors. */
const ARCHITECTURES: Readonly<Record<string, string>> = { x64: "amd64", arm64: "arm64" };

/** This machine as images name it. */
export function ownArchitecture(): string {
  return ARCHITECTURES[process.arch] ?? process.arch;
}

/** @throws SandboxError failed_precondition */
export function layoutFault(reason: string, cause?: unknown): never {
  throw new SandboxError("failed_precondition", `the image is not valid: ${reason}`, { cause });
}

export async function readManifest(layout: string): Promise<Manifest> {
  const document = await readDocument(join(layout, "index.json"), MAX_DOCUMENT_BYTES);
  return findManifest(layout, parse(indexSchema, document, "its index"), 0);
}

async function findManifest(
  layout: string,
  { manifests }: z.infer<typeof indexSchema>,
  depth: number,
): Promise<Manifest> {
  if (depth === MAX_DEPTH) layoutFault("its index is nested too deeply");
  const own = manifests.find(({ platform }) => isOwn(platform)) ?? onlyOne(manifests);
  if (own === undefined) {
    const offered = manifests.map(({ platform }) => `${platform?.os}/${platform?.architecture}`);
    const list = quoteUntrusted([...new Set(offered)].join(", "));
    layoutFault(`it has nothing for linux/${ownArchitecture()}, only ${list || "nothing"}`);
  }
  const document = await readBlob(layout, own, MAX_DOCUMENT_BYTES);
  const value = parseJson(document, "its manifest");
  if (typeof value === "object" && value !== null && "manifests" in value) {
    return findManifest(layout, parse(indexSchema, document, "its index"), depth + 1);
  }
  return { ...parse(manifestSchema, document, "its manifest"), digest: own.digest };
}

function isOwn(platform: Descriptor["platform"]): boolean {
  return platform?.os === "linux" && platform.architecture === ownArchitecture();
}

/** A single manifest needs no platform. */
function onlyOne(manifests: readonly Descriptor[]): Descriptor | undefined {
  const [first] = manifests;
  return manifests.length === 1 && first?.platform === undefined ? first : undefined;
}

/** A document of the layout, compared with its digest. */
export async function readBlob(
  layout: string,
  { digest: name, size }: Descriptor,
  maxBytes: number,
): Promise<Buffer> {
  if (size > maxBytes) layoutFault("a document of it is too long");
  const bytes = await readDocument(blobPath(layout, name), maxBytes);
  if (bytes.length !== size || `sha256:${sha256Hex(bytes)}` !== name) wrongDigest(name);
  return bytes;
}

function blobPath(layout: string, name: string): string {
  return join(layout, "blobs", "sha256", name.slice("sha256:".length));
}

function wrongDigest(name: string): never {
  layoutFault(`${name} does not have that digest`);
}

/** Opens a layer for reading once all of it has its digest; the open file is what was compared. */
export async function openLayer(
  layout: string,
  { digest: name, size }: Descriptor,
  signal: AbortSignal,
) {
  const file = await open(blobPath(layout, name), "r").catch((error: unknown) =>
    layoutFault(`${name} is missing`, error),
  );
  try {
    const facts = await file.stat();
    if (!facts.isFile() || facts.size !== size) layoutFault(`${name} has another size`);
    const hash = createHash("sha256");
    const buffer = Buffer.alloc(Math.min(PIECE_BYTES, Math.max(size, 1)));
    for (let position = 0; position < size;) {
      signal.throwIfAborted();
      const { bytesRead } = await file.read(buffer, 0, buffer.length, position);
      if (bytesRead === 0) layoutFault(`${name} is cut off`);
      hash.update(buffer.subarray(0, bytesRead));
      position += bytesRead;
    }
    if (`sha256:${hash.digest("hex")}` !== name) wrongDigest(name);
    return file;
  } catch (error) {
    await file.close();
    throw error;
  }
}

async function readDocument(path: string, maxBytes: number): Promise<Buffer> {
  let file;
  try {
    file = await open(path, "r");
  } catch (error) {
    if (isCode(error, "ENOENT")) layoutFault("a document of it is missing", error);
    throw error;
  }
  try {
    const facts = await file.stat();
    if (!facts.isFile() || facts.size > maxBytes) layoutFault("a document of it is too long");
    return await file.readFile();
  } finally {
    await file.close();
  }
}

/**
 * The value of a document.
 * @throws SandboxError failed_precondition for what does not fit the schema
 */
export function parse<T>(schema: z.ZodType<T>, document: Buffer, subject: string): T {
  const result = schema.safeParse(parseJson(document, subject));
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  const where = quoteUntrusted(issue?.path.join(".") ?? "");
  return layoutFault(`${subject} is not as it must be: ${where} ${issue?.message ?? ""}`);
}

function parseJson(document: Buffer, subject: string): unknown {
  try {
    createJsonGauge({ maxValues: MAX_VALUES })(document);
    return JSON.parse(document.toString("utf8"));
  } catch (error) {
    if (error instanceof SandboxError) layoutFault(`${subject}: ${error.message}`, error);
    return layoutFault(`${subject} is not JSON`, error);
  }
}
