/** A registry on loopback, Debian's docker-registry, with and without a login. */

import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { findTestTool } from "../test-tools.ts";

const LISTENING = /listening on 127\.0\.0\.1:([0-9]+)/;
const START_MS = 20_000;

export interface Registry extends AsyncDisposable {
  /** `127.0.0.1:PORT`. */
  readonly host: string;
}

export interface RegistryOptions {
  /** A directory of its own. */
  readonly directory: string;
  /** A line of an htpasswd file, with a bcrypt hash. */
  readonly login?: string;
  /** Whether images may be removed. */
  readonly canDelete?: boolean;
}

export async function startRegistry({
  directory,
  login,
  canDelete = true,
}: RegistryOptions): Promise<Registry> {
  await mkdir(directory, { recursive: true });
  const passwords = join(directory, "htpasswd");
  if (login !== undefined) await writeFile(passwords, `${login}\n`);
  const auth =
    login === undefined ? {} : { auth: { htpasswd: { realm: "test", path: passwords } } };
  const config = {
    version: 0.1,
    log: { level: "info" },
    storage: {
      filesystem: { rootdirectory: join(directory, "data") },
      delete: { enabled: canDelete },
    },
    http: { addr: "127.0.0.1:0", secret: createHash("sha256").update(directory).digest("hex") },
    ...auth,
  };
  const file = join(directory, "config.yml");
  // JSON is YAML.
  await writeFile(file, JSON.stringify(config));
  const program = await findTestTool("docker-registry");
  const child = spawn(program, ["serve", file], { stdio: ["ignore", "ignore", "pipe"] });
  const ended = new Promise<void>((resolve) => child.once("close", () => resolve()));
  const end = async () => {
    child.kill("SIGKILL");
    await ended;
  };
  try {
    return { host: `127.0.0.1:${await readPort(child)}`, [Symbol.asyncDispose]: end };
  } catch (error) {
    await end();
    throw error;
  }
}

function readPort(child: ReturnType<typeof spawn>): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  let text = "";
  child.stderr?.on("data", (chunk: Buffer) => {
    text = (text + chunk.toString("utf8")).slice(-64 * 1024);
    const port = LISTENING.exec(text)?.[1];
    if (port !== undefined) resolve(port);
  });
  child.once("error", reject);
  child.once("close", () => reject(new Error(`the registry ended: ${text}`)));
  AbortSignal.timeout(START_MS).addEventListener("abort", () => reject(new Error(text)));
  return promise;
}
