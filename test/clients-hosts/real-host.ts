/** Command lines of real hosts, each with a home of its own, and the commands of docs/hosts.md. */

import { execFile, type ExecFileException } from "node:child_process";
import { chmod, mkdir, readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { installNode } from "../support/clients/registry-packages.ts";
import { OFFLINE, PROGRAM } from "../support/program.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const RUN_LIMIT_MS = 300_000;
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024;

const PACKAGES = [
  "@anthropic-ai/claude-code@2.1.330",
  "@google/gemini-cli@0.61.0",
  "@openai/codex@0.169.0",
];

/** A person with an empty home and the hosts on the path. */
export interface Person {
  readonly home: string;
  /** A command line of a shell; what it printed, whatever its end. */
  run(line: string, environment?: Readonly<Record<string, string>>): Promise<string>;
}

/** Installs the hosts; their directory of programs. */
export async function obtainHosts(folder: string): Promise<string> {
  const place = join(folder, "hosts");
  // Claude Code puts its program in place by a script of its package.
  await installNode(place, PACKAGES, "scripts");
  return join(place, "node_modules/.bin");
}

/** `npx -y sandbox-mcp` is the built program, which keeps its data in this home. */
export async function createPerson(options: {
  readonly folder: string;
  readonly hosts: string;
  readonly sandboxHome: string;
}): Promise<Person> {
  const { folder, hosts, sandboxHome } = options;
  const home = join(folder, "home");
  const work = join(home, "work");
  const programs = join(folder, "bin");
  for (const directory of [work, programs, join(home, ".gemini")]) {
    await mkdir(directory, { recursive: true });
  }
  const settings = { ...OFFLINE, SANDBOX_MCP_HOME: sandboxHome, SANDBOX_MCP_LOG_LEVEL: "error" };
  const assignments = Object.entries(settings).map(([name, value]) => `${name}='${value}'`);
  const npx =
    `#!/bin/sh\n[ "$1 $2" = "-y sandbox-mcp" ] || exit 64\nshift 2\n` +
    `exec env ${assignments.join(" ")} '${process.execPath}' '${PROGRAM}' "$@"\n`;
  await writeFile(join(programs, "npx"), npx);
  await chmod(join(programs, "npx"), 0o755);
  // Gemini CLI starts no server in a directory that its user does not trust.
  const trusted = { [work]: "TRUST_FOLDER" };
  await writeFile(join(home, ".gemini/trustedFolders.json"), JSON.stringify(trusted));
  const path = [programs, hosts, join(ROOT, "node_modules/.bin"), process.env["PATH"] ?? ""];
  const base = { PATH: path.join(":"), HOME: home, TERM: "dumb", NO_COLOR: "1" };
  return {
    home,
    async run(line, environment = {}) {
      const { promise, resolve: settle } = Promise.withResolvers<string>();
      const limits = { timeout: RUN_LIMIT_MS, maxBuffer: MAX_OUTPUT_BYTES };
      const told = (error: ExecFileException | null, stdout: string, stderr: string) => {
        settle(`${stdout}${stderr}${error?.killed === true ? "ended by the time limit" : ""}`);
      };
      const child = execFile(
        "sh",
        ["-c", line],
        { cwd: work, env: { ...base, ...environment }, ...limits },
        told,
      );
      child.stdin?.end();
      return promise;
    },
  };
}

/** The command of the page that begins with these words, with address and key in it. */
export async function documentedCommand(
  start: string,
  { url = "", key = "" }: { readonly url?: string; readonly key?: string } = {},
): Promise<string> {
  const page = await readFile(join(ROOT, "docs/hosts.md"), "utf8");
  const line = page.split("\n").find((text) => text.startsWith(start));
  if (line === undefined) throw new Error(`docs/hosts.md has no command "${start}"`);
  return line.replaceAll("http://127.0.0.1:3490", url).replaceAll("<key>", key);
}
