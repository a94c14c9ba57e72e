/** The table of commands. Each is loaded only when it runs: the start of stdio is paid often. */

import type { CommandRun } from "./command.ts";

export interface Command {
  readonly name: string;
  readonly usage: string;
  readonly summary: string;
  /** Whether it makes or ends containers on this machine. */
  readonly hasEngine: boolean;
  load(): Promise<CommandRun>;
}

export const COMMANDS: readonly Command[] = [
  {
    name: "doctor",
    usage: "doctor [--json]",
    summary: "what this machine can isolate with, and what is missing",
    hasEngine: true,
    load: async () => (await import("./doctor.ts")).runDoctor,
  },
  {
    name: "gc",
    usage: "gc",
    summary: "removes what a crashed instance left, and prints it",
    hasEngine: true,
    load: async () => (await import("./gc.ts")).runGc,
  },
  {
    name: "key",
    usage: "key create|list|revoke [NAME] [--team TEAM]",
    summary: "API keys of the local service; those of a team see only what is its own",
    hasEngine: false,
    load: async () => (await import("./key.ts")).runKey,
  },
  {
    name: "manifest",
    usage: "manifest",
    summary: "prints the manifest of the tools",
    hasEngine: false,
    load: async () => (await import("./manifest.ts")).runManifest,
  },
  {
    name: "serve",
    usage: "serve",
    summary: "one HTTP listener: control API, gateway to the sandboxes, MCP",
    hasEngine: true,
    load: async () => (await import("./serve.ts")).runServe,
  },
  {
    name: "stdio",
    usage: "stdio",
    summary: "the MCP server on stdin and stdout",
    hasEngine: true,
    load: async () => (await import("./stdio.ts")).runStdio,
  },
  {
    name: "template",
    usage: "template list|pull [base]",
    summary: "local templates",
    hasEngine: true,
    load: async () => (await import("./template.ts")).runTemplate,
  },
];

export function findCommand(name: string): Command | undefined {
  return COMMANDS.find((command) => command.name === name);
}
