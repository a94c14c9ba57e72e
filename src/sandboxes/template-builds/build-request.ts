/** What a client asks of a template build, checked before anything of it is recorded or run. */

import { SandboxError } from "../../common/errors.ts";
import { checkRegistryLogin, type RegistryLogin } from "../../images/registry-login.ts";
import { VARIABLE_PATTERN } from "./step-patterns.ts";

/** Each step that runs is a layer on the way, and a start of a sandbox. */
const MAX_STEPS = 200;
/** A command is one argument of a shell, for which the kernel takes 128 KiB. */
const MAX_ARGUMENT_BYTES = 98_304;
const MAX_ARGUMENTS = 1_000;
/** SHA-256 is 64 digits. */
const HASH_PATTERN = /^[0-9a-f]{1,128}$/;
const STEP_TYPES = ["COPY", "RUN", "ENV", "ARG", "WORKDIR", "USER"] as const;

export type StepType = (typeof STEP_TYPES)[number];

export interface BuildStep {
  readonly type: StepType;
  readonly args: readonly string[];
  readonly filesHash?: string | undefined;
  readonly force: boolean;
}

export interface BuildPlan {
  readonly from:
    | { readonly kind: "template"; readonly reference: string }
    | {
        readonly kind: "image";
        readonly reference: string;
        readonly login?: RegistryLogin | undefined;
      };
  /** Whether nothing of the cache is used. */
  readonly force: boolean;
  readonly steps: readonly BuildStep[];
  /** Whether they begin with the user and the work directory of the image, as in docker. */
  readonly fromDockerfile?: boolean | undefined;
  /** Empty for none; undefined for that of the template that it is made from. */
  readonly startCommand: string | undefined;
  readonly readyCommand: string | undefined;
  /** Undefined for that of the template that it is made from. */
  readonly isolation?: "gvisor" | undefined;
}

/** @throws SandboxError invalid_argument unless it can be the hash of files. */
export function requireFilesHash(hash: string): string {
  if (HASH_PATTERN.test(hash)) return hash;
  throw new SandboxError("invalid_argument", "the hash of files must be lower-case hex");
}

/** @throws SandboxError invalid_argument; of a faulty step it names the number, from 1. */
export function checkPlan({ from, steps, startCommand = "", readyCommand = "" }: BuildPlan): void {
  if (from.kind === "image" && from.login !== undefined) {
    checkRegistryLogin(from.login, from.reference);
  }
  if (steps.length > MAX_STEPS) {
    throw new SandboxError(
      "invalid_argument",
      `a build has at most ${MAX_STEPS} steps, not ${steps.length}`,
    );
  }
  for (const [index, step] of steps.entries()) {
    const fault = faultOfStep(step);
    if (fault === undefined) continue;
    throw new SandboxError("invalid_argument", `step ${index + 1} (${step.type}): ${fault}`);
  }
  const fault = faultOfTexts([startCommand, readyCommand]);
  if (fault !== undefined) throw new SandboxError("invalid_argument", `commands: ${fault}`);
}

function faultOfStep({ type, args, filesHash }: BuildStep): string | undefined {
  const [first = ""] = args;
  const shape = SHAPES[type];
  if (args.length < shape.min || args.length > shape.max) {
    return `takes ${shape.min} to ${shape.max} arguments, not ${args.length}`;
  }
  if (type === "ENV" || type === "ARG") {
    if (args.length % 2 !== 0) return "takes pairs of names and values";
    const name = args.find((arg, index) => index % 2 === 0 && !VARIABLE_PATTERN.test(arg));
    if (name !== undefined) return `${JSON.stringify(name.slice(0, 64))} is no variable's name`;
  } else if (first === "") return "its first argument is empty";
  if (type === "COPY") {
    if (filesHash === undefined) return "the hash of its files is missing";
    if (!HASH_PATTERN.test(filesHash)) return "the hash of its files must be lower-case hex";
    if (args[1] === "") return "its target is empty";
  }
  return faultOfTexts(args);
}

const SHAPES = {
  COPY: { min: 2, max: 4 },
  RUN: { min: 1, max: 2 },
  ENV: { min: 2, max: MAX_ARGUMENTS },
  ARG: { min: 2, max: MAX_ARGUMENTS },
  WORKDIR: { min: 1, max: 1 },
  USER: { min: 1, max: 2 },
} as const satisfies Record<StepType, { readonly min: number; readonly max: number }>;

/** Why a text cannot be an argument of a program; undefined when all can. */
export function faultOfTexts(texts: readonly string[]): string | undefined {
  if (texts.some((text) => text.includes("\0"))) return "a NUL character is not allowed";
  if (texts.some((text) => !text.isWellFormed())) return "half a surrogate pair is not allowed";
  const isLong = texts.some((text) => Buffer.byteLength(text) > MAX_ARGUMENT_BYTES);
  return isLong ? `an argument has at most ${MAX_ARGUMENT_BYTES} bytes` : undefined;
}
