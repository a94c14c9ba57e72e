/** Writes layers of the engine as an image: an OCI layout in an archive. */

import { createHash } from "node:crypto";
import { constants, createReadStream, createWriteStream } from "node:fs";
import {
  mkdir,
  open,
  readlink,
  realpath,
  rename,
  rm,
  stat,
  writeFile,
  type FileHandle,
} from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { COPY_FULL_PATTERN, errorText, SandboxError } from "../common/errors.ts";
import { ifThere, syncFile, syncFolder } from "../common/files.ts";
import { sha256Hex } from "../common/hash.ts";
import { removeTree } from "../common/remove-tree.ts";
import { step } from "../common/steps.ts";
import { quoteName } from "../common/untrusted-text.ts";
import type { DiskCopy, Layer } from "../engine/engine.ts";
import { newDraft } from "../engine/host/drafts.ts";
import { runProgram } from "../engine/host/run-program.ts";
import { archiveLayers } from "../engine/storage/archive-layers.ts";
import { LAYERS } from "../engine/storage/layers.ts";
import { whileImagesStay } from "./image-locks.ts";
import { ownArchitecture } from "./layout.ts";

const TIMEOUT_MS = 30 * 60_000;
const TYPES = "application/vnd.oci.image";

export interface ExportTask {
  readonly home: string;
  /** Bottom first. */
  readonly layers: readonly Layer[];
  /** Of a snapshot, upon the layers. */
  readonly disk?: DiskCopy | undefined;
  readonly name: string;
  readonly config: {
    readonly env: readonly string[];
    readonly workdir: string;
    readonly user: string;
    readonly entrypoint: readonly string[];
    readonly cmd: readonly string[];
    readonly exposedPorts: readonly number[];
    readonly labels: Readonly<Record<string, string>>;
  };
  readonly perlDirectory: string;
  readonly signal: AbortSignal;
  onProgress?(message: string): void;
  /** Throws when the layers may have been removed since: another process does not wait for this one. */
  requireLayers(): void;
}

/**
 * Writes the archive; a file of that name is replaced once all of it is written. Returns the digest
 * of the image.
 * @throws SandboxError invalid_argument for what is no file, as `archiveLayers`, and what `requireLayers` throws
 */
export async function exportImage(task: ExportTask, file: string): Promise<string> {
  const target = await findTarget(resolve(file));
  return whileImagesStay(task, async () => writeImage(task, target));
}

/**
 * Where the file is written; one that is a link stays a link. A rename would put the archive in the
 * place of a device, as of /dev/null.
 * @throws SandboxError invalid_argument
 */
async function findTarget(file: string): Promise<string> {
  const hint = "name a file in a directory that is there";
  const found = await ifThere(stat(file), "ENOTDIR");
  if (found?.isFile() === false) {
    throw new SandboxError("invalid_argument", `${quoteName(file)} is no file`, { hint });
  }
  // A link to a file that is not there yet.
  const link = found === undefined ? await ifThere(readlink(file), "ENOTDIR", "EINVAL") : undefined;
  if (link !== undefined) return findTarget(resolve(dirname(file), link));
  const directory = await ifThere(stat(dirname(file)), "ENOTDIR");
  if (directory?.isDirectory() !== true) {
    const message = `${quoteName(dirname(file))} is no directory`;
    throw new SandboxError("invalid_argument", message, { hint });
  }
  return found === undefined ? file : realpath(file);
}

async function writeImage(task: ExportTask, file: string): Promise<string> {
  const directory = newDraft(join(task.home, LAYERS, "image-export"));
  try {
    await mkdir(join(directory, "layout/blobs/sha256"), { recursive: true, mode: 0o700 });
    task.onProgress?.("reading the layers");
    const archive = await readLayers(task, directory);
    task.onProgress?.("compressing");
    const digest = await writeDocuments(task, directory, archive);
    await pack(join(directory, "layout"), file, task.signal);
    return digest;
  } finally {
    await removeTree(directory);
  }
}

/** Of a directory that is removed meanwhile, tar archives without a word what is left. */
async function readLayers(task: ExportTask, directory: string): Promise<string> {
  try {
    return await archiveLayers({ ...task, directory });
  } finally {
    task.requireLayers();
  }
}

async function writeDocuments(task: ExportTask, directory: string, archive: string) {
  const layout = join(directory, "layout");
  const { layer, diffId } = await compress(archive, layout, task.signal);
  const { config } = task;
  const facts = {
    architecture: ownArchitecture(),
    os: "linux",
    config: {
      Env: config.env,
      WorkingDir: config.workdir,
      User: config.user,
      Entrypoint: config.entrypoint.length === 0 ? undefined : config.entrypoint,
      Cmd: config.cmd.length === 0 ? ["/bin/bash"] : config.cmd,
      ExposedPorts: Object.fromEntries(config.exposedPorts.map((port) => [`${port}/tcp`, {}])),
      Labels: config.labels,
    },
    rootfs: { type: "layers", diff_ids: [diffId] },
  };
  const manifest = {
    schemaVersion: 2,
    mediaType: `${TYPES}.manifest.v1+json`,
    config: { mediaType: `${TYPES}.config.v1+json`, ...(await putDocument(layout, facts)) },
    layers: [{ mediaType: `${TYPES}.layer.v1.tar+gzip`, ...layer }],
  };
  const top = await putDocument(layout, manifest);
  const entry = {
    mediaType: manifest.mediaType,
    ...top,
    platform: { os: "linux", architecture: ownArchitecture() },
    annotations: { "org.opencontainers.image.ref.name": task.name },
  };
  await writeFile(join(layout, "oci-layout"), '{"imageLayoutVersion":"1.0.0"}\n');
  const index = { schemaVersion: 2, mediaType: `${TYPES}.index.v1+json`, manifests: [entry] };
  await writeFile(join(layout, "index.json"), `${JSON.stringify(index)}\n`);
  return top.digest;
}

async function putDocument(layout: string, value: unknown) {
  const data = Buffer.from(JSON.stringify(value), "utf8");
  const hex = sha256Hex(data);
  await writeFile(blobOf(layout, hex), data);
  return { digest: `sha256:${hex}`, size: data.length };
}

function blobOf(layout: string, hex: string): string {
  return join(layout, "blobs/sha256", hex);
}

async function compress(archive: string, layout: string, signal: AbortSignal) {
  const plain = createHash("sha256");
  const packed = createHash("sha256");
  const draft = join(layout, "layer");
  await pipeline(
    createReadStream(archive),
    tap(plain),
    createGzip(),
    tap(packed),
    createWriteStream(draft, { mode: 0o600 }),
    { signal },
  );
  await rm(archive);
  const hex = packed.digest("hex");
  await rename(draft, blobOf(layout, hex));
  const { size } = await stat(blobOf(layout, hex));
  return { layer: { digest: `sha256:${hex}`, size }, diffId: `sha256:${plain.digest("hex")}` };
}

function tap(hash: ReturnType<typeof createHash>): Transform {
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      hash.update(chunk);
      done(null, chunk);
    },
  });
}

/** `O_TMPFILE`, which Node has no name for: a file without a name, in the directory that is opened. */
const NAMELESS = constants.O_RDWR | constants.O_DIRECTORY | 0o20_000_000;

/** Undefined where the file system has no such files. */
async function openNameless(directory: string): Promise<FileHandle | undefined> {
  return ifThere(open(directory, NAMELESS, 0o666), "EOPNOTSUPP", "ENOTSUP", "EISDIR", "EINVAL");
}

/**
 * The archive appears under its name when it is complete and on the disk: what an export that is killed
 * wrote goes with it, where the file system can do that. No other file beside it changes.
 */
async function pack(layout: string, file: string, signal: AbortSignal): Promise<void> {
  const draft = newDraft(file);
  await using nameless = await openNameless(dirname(file));
  const archive = nameless === undefined ? draft : `/proc/${process.pid}/fd/${nameless.fd}`;
  try {
    const words = ["--create", "--format=posix", "--owner=0", "--group=0", "--numeric-owner"];
    const parts = [`--directory=${layout}`, "oci-layout", "index.json", "blobs"];
    await runProgram(["tar", ...words, `--file=${archive}`, ...parts], {
      timeoutMs: TIMEOUT_MS,
      signal,
      cwd: dirname(layout),
    });
    await step("export.written");
    if (nameless !== undefined) await runProgram(["ln", "--logical", archive, draft]);
    await syncFile(draft);
    await rename(draft, file);
    // Some file systems that a user may name, as of shared folders, cannot do this.
    await ifThere(syncFolder(dirname(file)), "EINVAL");
  } catch (error) {
    await rm(draft, { force: true });
    if (!COPY_FULL_PATTERN.test(errorText(error))) throw error;
    throw new SandboxError("resource_exhausted", `no space left for ${quoteName(file)}`, {
      cause: error,
      hint: "free space there, or name a file on another disk",
    });
  }
}
