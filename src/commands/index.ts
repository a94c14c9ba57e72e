/** The table of commands and the help text. A command is loaded when it runs: stdio starts often. */

import { describeFlags } from "../flags.ts";
import type { Command } from "./program/command.ts";
import { readsFlag } from "./program/usage.ts";

const COMMANDS: readonly Command[] = [
  {
    name: "doctor",
    usage: "doctor [--json]",
    summary: "what this machine, or a cluster, can isolate with, and what is missing",
    hasEngine: true,
    hasHome: true,
    triesHome: true,
    logLevel: "error",
    load: async () => (await import("./doctor/doctor.ts")).runDoctor,
  },
  {
    name: "gc",
    usage: "gc",
    summary:
      "removes what stopped services left, also the sandboxes that the next serve would adopt, and prints it",
    hasEngine: true,
    hasHome: true,
    // A unit may run it before the first start of its service.
    withoutHome: "nothing to remove",
    load: async () => (await import("./gc.ts")).runGc,
  },
  {
    name: "key",
    usage: "key create|list|revoke [NAME] [--team TEAM]",
    summary:
      "API keys of the local service or, with --engine kubernetes, of the fronts of a cluster; a key sees only the resources of its team",
    forms: [
      "key create NAME [--team TEAM]",
      "key list [--team TEAM]",
      "key revoke NAME [--team TEAM]",
    ],
    actions: { create: 1, list: 0, revoke: 1 },
    hasEngine: false,
    hasHome: true,
    needsHome: ["list", "revoke"],
    load: async () => (await import("./key.ts")).runKey,
  },
  {
    name: "manifest",
    usage: "manifest",
    summary: "prints the manifest of the tools",
    hasEngine: false,
    hasHome: false,
    load: async () => (await import("./manifest.ts")).runManifest,
  },
  {
    name: "serve",
    usage: "serve",
    summary: "one HTTP listener: control API, gateway to the sandboxes, MCP",
    hasEngine: true,
    hasHome: true,
    load: async () => (await import("./serve/serve.ts")).runServe,
  },
  {
    name: "stdio",
    usage: "stdio",
    summary: "the MCP server on stdin and stdout",
    hasEngine: true,
    hasHome: true,
    load: async () => (await import("./stdio/stdio.ts")).runStdio,
  },
  {
    name: "template",
    usage: "template list|build|pull|show|remove|export|import",
    summary: "local templates: base, Dockerfiles, images of a registry, archives of images",
    forms: [
      "template build [DIR] [-f FILE] [--name N]",
      "template pull IMAGE [--name N]",
      "template show NAME",
      "template remove NAME",
      "template export NAME FILE",
      "template import FILE [--name N]",
      "template list",
      "template pull base [--if-missing]",
      "template pull code-interpreter [--if-missing]",
    ],
    actions: { build: 1, export: 2, import: 1, list: 0, pull: 1, remove: 1, show: 1 },
    hasEngine: true,
    hasHome: true,
    needsHome: ["export", "list", "remove", "show"],
    logLevel: "error",
    load: async () => (await import("./templates/template.ts")).runTemplate,
  },
  {
    name: "trust",
    usage: "trust [install|remove] [--domain NAME]",
    summary: "prints the authority of `serve --tls auto`, or has this system trust it",
    forms: ["trust", "trust install", "trust remove"],
    actions: { install: 0, remove: 0 },
    hasEngine: false,
    hasHome: true,
    // An authority that no service has is of no use; that of a home that was removed still goes.
    needsHome: ["", "install"],
    load: async () => (await import("./trust.ts")).runTrust,
  },
];

export function findCommand(name: string): Command | undefined {
  return COMMANDS.find((command) => command.name === name);
}

export function listForms(): string[] {
  return COMMANDS.flatMap((command) => formsOf(command));
}

function formsOf({ name, forms = [name] }: Command): readonly string[] {
  return forms;
}

/** The help of one command, or of one of its actions: what it does and the flags that it takes. */
function commandHelp(command: Command, action: string): string {
  const { name, summary, actions } = command;
  const isOfAction = Object.hasOwn(actions ?? {}, action);
  const forms = formsOf(command).filter((form) => !isOfAction || form.split(" ")[1] === action);
  return [
    `sandbox-mcp ${name}: ${summary}`,
    "",
    "Usage:",
    ...forms.map((form) => `  sandbox-mcp ${form} [FLAGS]`),
    ...(isOfAction || actions === undefined ? [] : [`  ${name} ACTION --help: one action alone.`]),
    "",
    FLAGS_TITLE,
    ...describeFlags((flag) => readsFlag(command, action, flag)),
  ].join("\n");
}

/** The help of the program, of one command, or of one action of it. */
export function helpText(command?: Command, action = ""): string {
  if (command !== undefined) return commandHelp(command, action);
  const width = Math.max(...COMMANDS.map(({ usage }) => usage.length));
  const commands = COMMANDS.map(({ usage, summary }) => `  ${usage.padEnd(width)}  ${summary}`);
  return [
    "sandbox-mcp: isolated computers for AI agents, as MCP tools",
    "",
    "Add it to a host:",
    "  claude mcp add sandbox -- npx -y sandbox-mcp",
    '  or {"mcpServers":{"sandbox":{"command":"npx","args":["-y","sandbox-mcp"]}}}',
    "",
    "Usage: sandbox-mcp [COMMAND] [FLAGS]",
    ...commands,
    "  Without a command: stdio when stdin is no terminal, else this text.",
    "  COMMAND --help: the flags of one command.",
    "",
    FLAGS_TITLE,
    ...describeFlags(),
  ].join("\n");
}

const FLAGS_TITLE =
  "Flags (the table Settings of the README has the variable and the default of each):";
