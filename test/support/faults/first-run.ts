/**
 * The package as a stranger has it: packed, installed by npm into an empty directory, started in an
 * empty home; several servers and creates at once, killed at any moment and started again.
 */

import { execFile } from "node:child_process";
import { chmod, copyFile, mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { ORDINARY_RUNTIME } from "../level.ts";
import type { OrdinaryUser } from "../ordinary-user.ts";
import { OFFLINE } from "../program.ts";

const run = promisify(execFile);
const ROOT = resolve(import.meta.dirname, "../../..");
const LISTENER = resolve(import.meta.dirname, "step-listener.ts");

export interface Installed extends AsyncDisposable {
  /** The program in the directory that it was installed to. */
  readonly program: string;
  /** Loads the listener that ends it at a step. */
  readonly listener: string;
  /** What the listener reads; whoever runs the program may rename it. */
  readonly planPath: string;
}

/** Packs and installs. There is no registry in a test, and the package depends on no other. */
export async function installPackage(): Promise<Installed> {
  const folder = await mkdtemp(join(tmpdir(), "smcp-install-"));
  await chmod(folder, 0o755);
  const env = {
    PATH: process.env["PATH"] ?? "",
    HOME: join(folder, "npm"),
    npm_config_offline: "true",
  };
  const words = ["pack", "--ignore-scripts", "--json", "--pack-destination", folder];
  const { stdout } = await run("npm", words, { cwd: ROOT, env });
  const packed: readonly { readonly filename: string }[] = JSON.parse(stdout);
  const app = join(folder, "app");
  await mkdir(app);
  await writeFile(join(app, "package.json"), '{"name":"app","private":true}');
  const tarball = join(folder, packed[0]?.filename ?? "");
  await run("npm", ["install", "--no-audit", "--no-fund", tarball], { cwd: app, env });
  const listener = join(folder, "step-listener.ts");
  await copyFile(LISTENER, listener);
  await run("chmod", ["-R", "a+rX", app]);
  const plans = join(folder, "plans");
  await mkdir(plans);
  await chmod(plans, 0o777);
  return {
    program: join(app, "node_modules/sandbox-mcp/dist/main.js"),
    listener,
    planPath: join(plans, "plan"),
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  };
}

/** Who starts it, and in which home. */
export interface Person {
  readonly name: string;
  readonly home: string;
  /** What its servers have of their own. */
  readonly settings: Readonly<Record<string, string>>;
  /** The command before the path of the program. */
  readonly command: readonly [string, ...string[]];
  /** Makes the home empty again; an ordinary user keeps its base template. */
  clear(): Promise<void>;
}

/** Root, with a home that does not exist yet. */
export function rootPerson(folder: string): Person {
  const home = join(folder, "home");
  const clear = async () => rm(home, { recursive: true, force: true });
  return { name: "root", home, settings: {}, command: [process.execPath], clear };
}

/** An account without rights: `host` does not exist for it, so its home has the base template. */
export function ordinaryPerson(user: OrdinaryUser): Person {
  const command = user.program.slice(0, -1);
  const [first = "", ...rest] = command;
  return {
    name: "ordinary user",
    home: user.data,
    settings: ORDINARY_RUNTIME,
    command: [first, ...rest],
    async clear() {
      for (const name of await readdir(user.data)) {
        if (name !== "layers") await rm(join(user.data, name), { recursive: true, force: true });
      }
    },
  };
}

/** What a program of a test gets to see. */
export function environmentOf(person: Person): Record<string, string> {
  const home = dirname(person.home);
  const place = { HOME: home, SANDBOX_MCP_HOME: person.home, SANDBOX_MCP_LOG_LEVEL: "warn" };
  return { ...OFFLINE, ...place, ...person.settings };
}
