/** From a Dockerfile to the steps of a build; what has no place in a build is refused by its line. */

import { hasErrorCode, SandboxError } from "../../common/errors.ts";
import { ownArchitecture } from "../../images/layout.ts";
import { MODE_PATTERN, OWNER_PATTERN } from "../../sandboxes/template-builds/step-patterns.ts";
import { FaultList } from "../program/fault-list.ts";
import { readEnvWords } from "./env-words.ts";
import { createFileVariables, type FileVariables } from "./file-variables.ts";
import { readInstructions, readList, type InstructionText } from "./instructions.ts";
import {
  DEFAULT_SHELL,
  inShell,
  joinWords,
  readFlags,
  splitOption,
  withDocuments,
  type Refuse,
  type Shell,
} from "./run-command.ts";

export interface DockerfileStep {
  readonly type: "COPY" | "RUN" | "ENV" | "ARG" | "WORKDIR" | "USER";
  readonly args: readonly string[];
  readonly line: number;
  /** Of a COPY that is an ADD, which docker gives archives unpacked. */
  readonly isAdd?: true;
}

export interface DockerfilePlan {
  readonly base: string;
  readonly steps: readonly DockerfileStep[];
  readonly startCommand: string | undefined;
  /** Instructions that have less effect than their words say. */
  readonly notes: readonly string[];
}

/** They describe an image and change nothing in a sandbox. */
const IGNORED: ReadonlySet<string> = new Set([
  "EXPOSE",
  "HEALTHCHECK",
  "LABEL",
  "MAINTAINER",
  "STOPSIGNAL",
]);
const VOLUME_NOTE = "VOLUME has no effect: its files are on the disk of the sandbox";
/** Instructions whose variables are replaced by the values of the file. */
const EXPANDED: ReadonlySet<string> = new Set(["ADD", "COPY", "FROM", "USER", "WORKDIR"]);
/** Of those that can be refused. One of another name sets variables, or is meant to and is misspelt. */
const WITHOUT_VARIABLES: ReadonlySet<string> = new Set([...EXPANDED, "ONBUILD", "RUN", "SHELL"]);
const COPY_FLAGS: ReadonlySet<string> = new Set(["chown", "chmod", "link"]);

/**
 * The plan of a Dockerfile.
 * @throws FaultList invalid_argument with name and line of everything that is not supported.
 */
export function readDockerfile(text: string, name: string): DockerfilePlan {
  const reader = createReader(name);
  const faults: string[] = [];
  let isBehindFrom = false;
  let areVariablesKnown = true;
  const collect = (work: () => void, isFollowing = false): boolean => {
    try {
      work();
      return true;
    } catch (error) {
      if (!hasErrorCode(error, "invalid_argument")) throw error;
      if (!isFollowing) faults.push(error.message);
      return false;
    }
  };
  collect(() => {
    for (const instruction of readInstructions(text, name)) {
      const { keyword, content } = instruction;
      // What names a variable may be at fault only because the instruction that sets it was refused.
      const isFollowing = !areVariablesKnown && EXPANDED.has(keyword) && content.includes("$");
      const isTaken = collect(() => reader.take(instruction), isFollowing);
      isBehindFrom ||= keyword === "FROM";
      // Where FROM is missing, an ARG is none of those before it.
      const areVariablesKept = isBehindFrom && WITHOUT_VARIABLES.has(keyword);
      if (!isTaken && !areVariablesKept) areVariablesKnown = false;
    }
  });
  if (faults.length === 0) return reader.end();
  throw new FaultList("invalid_argument", faults);
}

function createReader(name: string) {
  /** Empty after one that was refused, or is missing, which is one fault. */
  let base: string | undefined;
  let entrypoint: Command | undefined;
  let command: Command | undefined;
  let shell: Shell | undefined;
  const variables = createFileVariables();
  const notes: string[] = [];
  const steps: DockerfileStep[] = [];

  function take(instruction: InstructionText): void {
    const { keyword, line, content } = instruction;
    const refuse = (fault: string): never => {
      throw new SandboxError("invalid_argument", `${name}:${line}: ${keyword} ${fault}`);
    };
    const add = (type: DockerfileStep["type"], args: readonly string[], isAdd = false) =>
      void steps.push({ type, args, line, ...(isAdd && { isAdd }) });
    const isEarly = base === undefined && keyword !== "ARG";
    base ??= isEarly ? "" : undefined;
    if (isEarly && keyword !== "FROM") refuse("comes before FROM");
    switch (keyword) {
      case "FROM":
        if (base !== "") refuse("begins a second stage, which is not supported");
        base = readBase(variables.expandGlobal(content, refuse), refuse);
        return;
      case "RUN":
        for (const args of readRun({ instruction, shell: shell ?? DEFAULT_SHELL, refuse }))
          add("RUN", args);
        return;
      case "SHELL":
        shell = readList(content) ?? refuse("needs a list of words in JSON");
        if (shell.length === 0) refuse("has no words");
        return;
      case "COPY":
      case "ADD":
        if (instruction.documents.length > 0) refuse("with a here-document is not supported");
        for (const args of readCopy({ content, variables, refuse }))
          add("COPY", args, keyword === "ADD");
        return;
      case "ENV":
      case "ARG": {
        const pairs = readEnvWords(keyword, content, { refuse });
        if (base === undefined) return variables.addGlobal(pairs);
        const kept = variables.add(keyword, pairs);
        if (kept.length > 0) add(keyword, kept);
        return;
      }
      case "WORKDIR":
      case "USER":
        add(keyword, [variables.expand(content, refuse) || refuse("has no value")]);
        return;
      case "CMD":
        command = toCommand(content, shell);
        return;
      case "ENTRYPOINT":
        entrypoint = toCommand(content, shell);
        return;
      case "VOLUME":
        return void notes.push(`${name}:${line}: ${VOLUME_NOTE}`);
      default:
        if (!IGNORED.has(keyword)) refuse("is not supported");
    }
  }

  function end(): DockerfilePlan {
    if (base === undefined) throw new SandboxError("invalid_argument", `${name}: FROM is missing`);
    return { base, steps, startCommand: toStart(entrypoint, command), notes };
  }

  return { take, end };
}

interface Command {
  /** As a shell runs it. */
  readonly text: string;
  /** As the arguments of a program. */
  readonly words: string;
  /** Whether it was a list of words: the other form is a text for a shell. */
  readonly isList: boolean;
}

/** Without a SHELL the shell of start commands runs a text, which is not that of a RUN. */
function toCommand(content: string, shell: Shell | undefined): Command | undefined {
  if (content === "") return undefined;
  const list = readList(content);
  if (list === undefined) {
    const words = joinWords([...(shell ?? DEFAULT_SHELL), content]);
    return { text: shell === undefined ? content : words, words, isList: false };
  }
  const text = joinWords(list);
  return text === "" ? undefined : { text, words: text, isList: true };
}

/** As docker joins them: a command is the arguments of an entry point that is a list. */
function toStart(entrypoint: Command | undefined, command: Command | undefined) {
  if (entrypoint === undefined) return command?.text;
  if (command === undefined || !entrypoint.isList) return entrypoint.text;
  return `${entrypoint.text} ${command.words}`;
}

interface RunText {
  readonly instruction: InstructionText;
  readonly shell: Shell;
  readonly refuse: Refuse;
}

/** The arguments of its steps. */
function readRun({ instruction, shell, refuse }: RunText): string[][] {
  const { content, documents } = instruction;
  const { command, preparation } = readFlags(content, refuse);
  const list = readList(command);
  const text = documents.length === 0 ? command : withDocuments(command, documents, refuse);
  // A list is a program, also where the shell has a command of this name.
  const run = list === undefined ? inShell(shell, text) : `exec ${joinWords(list)}`;
  if (text === "" || list?.length === 0) refuse("has no command");
  return preparation === "" ? [[run]] : [[preparation, "root"], [run]];
}

function readBase(content: string, refuse: Refuse): string {
  const words = content.split(/\s+/);
  const own = `--platform=linux/${ownArchitecture()}`;
  // An image of this machine's platform is what is fetched.
  if (words[0] === own) words.shift();
  const [image = "", ...rest] = words;
  if (image.startsWith("--")) refuse(`with ${image} is not supported, ${own} is`);
  if (image === "scratch") refuse("scratch is not supported: a sandbox needs a shell");
  const isNamed = rest.length === 2 && rest[0]?.toUpperCase() === "AS";
  return image !== "" && (rest.length === 0 || isNamed) ? image : refuse("needs one image");
}

interface CopyText {
  readonly content: string;
  readonly variables: FileVariables;
  readonly refuse: Refuse;
}

function readCopy({ content, variables, refuse }: CopyText): string[][] {
  const [leading = ""] = /^(?:--\S*\s+)*/.exec(content) ?? [];
  const rest = content.slice(leading.length);
  const words = rest.split(/\s+/);
  const flags = new Map<string, string>();
  for (const flag of leading.split(/\s+/).filter((word) => word !== "")) {
    const [name = "", value = ""] = splitOption(flag.slice(2));
    if (!COPY_FLAGS.has(name)) refuse(`with --${name} is not supported`);
    flags.set(name, variables.expand(value, refuse));
  }
  const { chown, chmod } = Object.fromEntries(flags);
  if (chown !== undefined && !OWNER_PATTERN.test(chown)) refuse("with --chown needs USER[:GROUP]");
  if (chmod !== undefined && !MODE_PATTERN.test(chmod)) refuse("with --chmod needs an octal mode");
  const given = readList(rest) ?? words;
  const paths = given.map((path) => variables.expand(path, refuse));
  const last = paths.pop() ?? "";
  if (paths.length === 0) refuse("needs a source and a target");
  // Each source is a step of its own: none may replace the one before it.
  const target = paths.length > 1 ? last.replace(/\/*$/, "/") : last;
  return paths.map((source) => {
    if (/^[a-z]+:\/\/|^git@/i.test(source)) refuse("from an address is not supported");
    return [source, target, flags.get("chown") ?? "", flags.get("chmod") ?? ""];
  });
}
