/** RUN as a command of a shell: flags that change nothing of its outcome, and here-documents. */

import { Run, type Instruction } from "dockerfile-ast";

export type Refuse = (fault: string) => never;

const FLAG = /^--(?<name>[\w-]+)(?:=(?<value>\S*))?(?:\s+|$)/;
/** Mounts that a command can do without, if their directories are there: a cache is empty at first, too. */
const SPARE_MOUNTS: ReadonlySet<string> = new Set(["cache", "tmpfs"]);
/** The document is the whole command. */
const SCRIPT = /^<<-?\s*(["']?)\w+\1$/;

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

/** Its variables are those of the shell that makes it. */
function makeMountPoint(options: string, refuse: Refuse): string {
  const pairs = options.split(",").map((pair) => pair.split("="));
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

/** The lines of the command itself, and those of its here-documents with the words that end them. */
interface RunLines {
  readonly command: readonly string[];
  readonly documents: readonly string[];
}

/** Undefined for an instruction without here-documents. */
export function splitDocuments(
  lines: readonly string[],
  instruction: Instruction,
  refuse: Refuse,
): RunLines | undefined {
  const documents = instruction instanceof Run ? instruction.getHeredocs() : [];
  const [first] = documents;
  if (first === undefined) return undefined;
  // Null where the file ends first.
  const ends = documents.map((document) => document.getDelimiterRange());
  if (ends.includes(null)) refuse(`has a here-document ${first.getName()} that does not end`);
  const { start, end } = instruction.getRange();
  const firstLine = first.getContentRange()?.start.line ?? ends[0]?.start.line ?? end.line;
  return {
    command: lines.slice(start.line, firstLine),
    documents: lines.slice(firstLine, end.line + 1),
  };
}

/** What a shell is given: a document that stands alone is a script, any other one is input. */
export function withDocuments(
  command: string,
  documents: readonly string[],
  refuse: Refuse,
): string {
  if (!SCRIPT.test(command)) return [command, ...documents, ""].join("\n");
  const script = documents.slice(0, -1);
  if (script[0]?.startsWith("#!"))
    refuse("with a here-document of another program: name it before");
  const isIndented = command.startsWith("<<-");
  return script.map((line) => (isIndented ? line.replace(/^\t+/, "") : line)).join("\n");
}

/** Each RUN has a bash already: of another one its options alone matter. */
const SHELL = /^(?:\/(?:usr\/)?bin\/)?(?:ba)?sh((?: -[euxl]*(?:o pipefail)?)*) -([euxl]*)c$/;

/** What SHELL puts before the commands that follow; undefined for a shell that is not there. */
export function readShell(words: readonly string[]): string | undefined {
  const [, before, last = ""] = SHELL.exec(words.join(" ")) ?? [];
  if (before === undefined) return undefined;
  const options = `${before} -${last}`
    .split(" ")
    // A login shell it is in any case.
    .map((word) => (word === "pipefail" ? word : word.replaceAll("l", "")))
    .filter((word) => word !== "" && word !== "-");
  return options.length === 0 ? "" : `set ${options.join(" ")}\n`;
}
