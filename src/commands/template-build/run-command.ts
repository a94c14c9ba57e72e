/** RUN as a command of a shell: flags that change nothing of its outcome, and here-documents. */

import { readDocumentHead, type HereDocument } from "./instructions.ts";

export type Refuse = (fault: string) => never;

const FLAG = /^--(?<name>[\w-]+)(?:=(?<value>\S*))?(?:\s+|$)/;
/** Mounts that a command can do without, if their directories are there: a cache is empty at first, too. */
const SPARE_MOUNTS: ReadonlySet<string> = new Set(["cache", "tmpfs"]);

/** A command without its flags, and what makes the directories of its mounts, as root. */
export interface FlaggedCommand {
  readonly command: string;
  /** Empty without mounts. */
  readonly preparation: string;
}

export function readFlags(content: string, refuse: Refuse): FlaggedCommand {
  let command = content;
  const made: string[] = [];
  for (;;) {
    const found = FLAG.exec(command);
    if (found === null) return { command, preparation: made.join(" && ") };
    const { name = "", value = "" } = found.groups ?? {};
    if (name === "mount") made.push(makeMountPoint(value, refuse));
    else if (name !== "network" || value !== "default") refuse(`with --${name} is not supported`);
    command = command.slice(found[0].length);
  }
}

/** Name and value of `NAME=VALUE`; the value may have further signs of equality. */
export function splitOption(option: string): string[] {
  return option.split(/=(.*)/s, 2);
}

/** Its variables are those of the shell that makes it. */
function makeMountPoint(options: string, refuse: Refuse): string {
  const pairs = options.split(",").map(splitOption);
  const values: Record<string, string | undefined> = Object.fromEntries(pairs);
  const { type = "bind", uid, gid, mode } = values;
  if (!SPARE_MOUNTS.has(type)) refuse(`with --mount of type ${type} is not supported`);
  const target = values["target"] ?? values["dst"] ?? values["destination"] ?? "";
  if (target === "") refuse("with --mount needs a target");
  for (const [name, value] of Object.entries({ uid, gid, mode })) {
    if (!/^[0-9]*$/.test(value ?? "")) refuse(`with --mount of the ${name} ${value}`);
  }
  const place = `"${target.replaceAll(/["\\`]/g, String.raw`\$&`)}"`;
  const owner = uid !== undefined || gid !== undefined ? [`chown -- ${uid ?? 0}:${gid ?? 0}`] : [];
  const changes = mode === undefined ? owner : [...owner, `chmod -- ${mode}`];
  return ["mkdir -p --", ...changes].map((change) => `${change} ${place}`).join(" && ");
}

/** What a shell is given: a document that stands alone is a script, any other one is input. */
export function withDocuments(
  command: string,
  documents: readonly HereDocument[],
  refuse: Refuse,
): string {
  if (readDocumentHead(command) === undefined) {
    const inputs = documents.flatMap(({ name, lines }) => [...lines, name]);
    return [command, ...inputs, ""].join("\n");
  }
  const script = documents.flatMap(({ lines, isIndented }) =>
    isIndented ? lines.map((line) => line.replace(/^\t+/, "")) : lines,
  );
  if (script[0]?.startsWith("#!"))
    refuse("with a here-document of another program: name it before");
  return script.join("\n");
}

/** What runs a command that is a text, as SHELL names it. */
export type Shell = readonly string[];

/** The one that the service runs a RUN with. */
export const DEFAULT_SHELL: Shell = ["/bin/sh", "-c"];

/** The text for the default shell that is run by another one; a text for the default one stays. */
export function inShell(shell: Shell, text: string): string {
  const isDefault = joinWords(shell) === joinWords(DEFAULT_SHELL);
  return isDefault ? text : joinWords([...shell, text]);
}

/** The words of a program and its arguments as a text for a shell. */
export function joinWords(words: readonly string[]): string {
  return words.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : quote(word))).join(" ");
}

function quote(word: string): string {
  return `'${word.replaceAll("'", String.raw`'\''`)}'`;
}
