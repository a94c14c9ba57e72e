/** RUN as a command of a shell: flags that change nothing of its outcome, and here-documents. */

import { Run, type Instruction } from "dockerfile-ast";

type Refuse = (fault: string) => never;

/** Of a mount that a command can do without: a cache is empty at first, too. */
const SPARE_FLAG = /^--(?:mount=(?:\S*,)?type=(?:cache|tmpfs)(?:,\S*)?|network=default)\s+/;
const FLAG = /^--[\w-]+/;
/** The document is the whole command. */
const SCRIPT = /^<<-?\s*(["']?)\w+\1$/;

/** Without the flags. */
export function withoutFlags(content: string, refuse: Refuse): string {
  let command = content;
  while (SPARE_FLAG.test(command)) command = command.replace(SPARE_FLAG, "");
  const [flag] = FLAG.exec(command) ?? [];
  if (flag === undefined) return command;
  const hint = flag === "--mount" ? " of another type than cache and tmpfs" : "";
  return refuse(`with ${flag}${hint} is not supported`);
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
