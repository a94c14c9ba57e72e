/**
 * POST /files/compose: several files become one, in order. The new file appears whole or not at
 * all, and the sources go only after it did.
 */

import type { Stats } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { SandboxError, errorText } from "../../common/errors.ts";
import { toWirePath } from "../../common/file-names.ts";
import { readBody, sendJson } from "../../common/http.ts";
import { parseJson } from "../../common/json.ts";
import { faultsOf, type z } from "../../common/schema.ts";
import { composeRequestSchema, type FileRecord } from "../../wire/files.ts";
import { pathFor } from "../call.ts";
import { errnoText, fileErrorText, isDiskFull } from "../errno.ts";
import { fileUser, type Exchange } from "../exchange.ts";
import { realpath, removeFile, stat } from "../file-system.ts";
import { ensureDirectories } from "../owner.ts";
import { parentPlace, writtenPlace } from "../parent-path.ts";
import { baseName, joinPath } from "../path.ts";
import type { User } from "../user.ts";
import { concatenate } from "./concatenate.ts";
import type { StagedFile, Staging } from "./staging.ts";
import { changeOwner } from "./write-target.ts";

type ComposeRequest = z.infer<typeof composeRequestSchema>;

/** Some ten thousand paths. */
const MAX_BODY_BYTES = 1_048_576;
const FILE_MODE = 0o666;

/** @throws SandboxError invalid_argument, unauthenticated, not_found, resource_exhausted, internal */
export async function compose(exchange: Exchange): Promise<void> {
  const request = parseRequest(await readRequest(exchange));
  const user = await fileUser(exchange, request.username ?? undefined);
  const plan = await planComposition(exchange, request, user);
  const sizeBytes = await runComposition(plan, exchange.signal);
  const { log } = exchange.daemon;
  log.write("info", "File compose completed", {
    logger: "envd",
    operation_id: exchange.operationId,
    path: toWirePath(plan.target),
    sources: plan.sources.length,
    size: sizeBytes,
  });
  const record: FileRecord = {
    path: toWirePath(plan.target),
    name: toWirePath(baseName(plan.target)),
    type: "file",
  };
  sendJson(exchange.response, 200, {
    body: record,
    headers: { "content-type": "application/json" },
  });
}

interface Plan {
  readonly target: string;
  readonly sources: readonly string[];
  readonly user: User;
  readonly staging: Staging;
}

async function readRequest(exchange: Exchange): Promise<Buffer> {
  try {
    return await readBody(exchange.request, MAX_BODY_BYTES);
  } catch (error) {
    throw invalid(`invalid request body: ${errorText(error)}`, error);
  }
}

function parseRequest(body: Buffer): ComposeRequest {
  let json: unknown;
  try {
    json = parseJson(body);
  } catch (error) {
    throw invalid(`invalid request body: ${errorText(error)}`, error);
  }
  const parsed = composeRequestSchema.safeParse(json);
  if (!parsed.success) throw invalid(`invalid request body: ${faultsOf(parsed.error)}`);
  if (parsed.data.source_paths.length === 0) throw invalid("source_paths must not be empty");
  if (parsed.data.destination === "") throw invalid("destination is required");
  return parsed.data;
}

async function planComposition(
  { daemon }: Exchange,
  request: ComposeRequest,
  user: User,
): Promise<Plan> {
  const resolve = async (path: string, subject: string) => {
    try {
      return await pathFor(daemon, user, path);
    } catch (error) {
      throw invalid(`error resolving ${subject}: ${errorText(error)}`, error);
    }
  };
  const target = await resolve(request.destination, "destination path");
  const targetPlace = await placeOf(target);
  const sources: string[] = [];
  for (const given of request.source_paths) {
    const source = await resolve(given, `source path "${given}"`);
    await checkSource({ given, source }, { target, targetPlace });
    sources.push(source);
  }
  return { target, sources, user, staging: daemon.staging };
}

async function checkSource(
  { given, source }: { readonly given: string; readonly source: string },
  { target, targetPlace }: { readonly target: string; readonly targetPlace: string },
): Promise<void> {
  // Under another spelling it would still be the file that is deleted in the end.
  if (source === target || (await placeOf(source)) === targetPlace) {
    throw invalid(`source path "${given}" cannot be the same as destination`);
  }
  let stats: Stats;
  try {
    stats = await stat(source);
  } catch (error) {
    throw new SandboxError("not_found", `source file not found: ${given}`, { cause: error });
  }
  if (!stats.isFile()) throw invalid(`source path is not a regular file: ${given}`);
}

/** Where a name really stands: its folder without links, then the name itself. */
async function placeOf(path: string): Promise<string> {
  const folder = await parentPlace(path);
  const real = await realpath(folder).catch(() => folder);
  return joinPath(real, baseName(path));
}

async function runComposition(plan: Plan, signal: AbortSignal): Promise<number> {
  const { target, sources, user } = plan;
  try {
    await ensureDirectories(await parentPlace(target), user);
  } catch (error) {
    const message = `error ensuring directories: ${errorText(error)}`;
    throw new SandboxError("internal", message, { cause: error });
  }
  await using staged = await stage(plan);
  const sizeBytes = await fill(staged.file, { sources, user }, signal);
  await finalize(staged, target);
  // The new file is complete; a source that stays is left over, not lost.
  await Promise.allSettled(sources.map(async (source) => removeFile(source)));
  return sizeBytes;
}

async function fill(
  file: FileHandle,
  job: Pick<Plan, "sources" | "user">,
  signal: AbortSignal,
): Promise<number> {
  await changeOwner(file, job.user);
  await concatenate(job.sources, file, signal);
  try {
    await file.sync();
    return (await file.stat()).size;
  } catch (error) {
    throw spaceFault(error, `error closing destination file: ${errnoText(error)}`);
  }
}

async function stage({ staging, target }: Plan): Promise<StagedFile> {
  try {
    return await staging.create(await parentPlace(target), FILE_MODE);
  } catch (error) {
    const text = fileErrorText("open", target, error);
    throw spaceFault(error, `error creating destination file: ${text}`);
  }
}

async function finalize(staged: StagedFile, target: string): Promise<void> {
  try {
    await staged.publish(await writtenPlace(target));
  } catch (error) {
    const text = `rename ${staged.path} ${target}: ${errnoText(error)}`;
    throw spaceFault(error, `error finalizing compose: ${text}`);
  }
}

function spaceFault(error: unknown, message: string): SandboxError {
  if (!isDiskFull(error)) return new SandboxError("internal", message, { cause: error });
  const full = "not enough disk space available";
  return new SandboxError("resource_exhausted", full, { cause: error });
}

function invalid(message: string, cause?: unknown): SandboxError {
  return new SandboxError("invalid_argument", message, { cause });
}
