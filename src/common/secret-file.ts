/** A secret of 32 random bytes in a file of its own, made once for all processes. */

import { randomBytes } from "node:crypto";
import { link, open, readFile, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { isCode, SandboxError } from "./errors.ts";
import { ifThere, syncFolder } from "./files.ts";

const SECRET_BYTES = 32;

/**
 * The secret; undefined where there is no such file.
 * @throws SandboxError failed_precondition for a file of another size.
 */
export async function readSecret(path: string): Promise<Buffer | undefined> {
  const secret = await ifThere(readFile(path));
  if (secret === undefined || secret.length === SECRET_BYTES) return secret;
  throw new SandboxError(
    "failed_precondition",
    `${path} holds ${secret.length} bytes, not ${SECRET_BYTES}`,
    { hint: "restore it from a backup, or use another --home" },
  );
}

/** The secret, which is made where there is none; durable when it resolves. */
export async function openSecret(path: string): Promise<Buffer> {
  return (await readSecret(path)) ?? makeSecret(path);
}

/** Linked into place when complete, so that no process ever reads half of it. */
async function makeSecret(path: string): Promise<Buffer> {
  const part = `${path}.${randomBytes(8).toString("hex")}`;
  const file = await open(part, "wx", 0o600);
  try {
    await file.writeFile(randomBytes(SECRET_BYTES));
    await file.sync();
    await link(part, path);
    // What depends on it must not outlive it in a power cut.
    await syncFolder(dirname(path));
  } catch (error) {
    // Another process was faster: its secret counts.
    if (!isCode(error, "EEXIST")) throw error;
  } finally {
    await file.close();
    await rm(part, { force: true });
  }
  const secret = await readSecret(path);
  if (secret === undefined) throw new SandboxError("unavailable", `${path} vanished`);
  return secret;
}
