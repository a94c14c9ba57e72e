/**
 * The user and the work directory of a build from a Dockerfile: as in docker its steps begin with
 * those that the image names, else as root in `/`. What the file does not name is at the end that of
 * the base, as for every template of it; so is a variable that an ARG alone has replaced.
 */

import type { BuildRecord } from "../../store/store.ts";
import type { ResolvedTemplate } from "../templates/resolve-template.ts";
import type { BuildStep } from "./build-request.ts";
import type { StepState } from "./run-step.ts";

/** Those of a template that names none. */
const PLAIN_USER = "user";
const PLAIN_WORKDIR = "/home/user";

interface NamedState {
  readonly user: string | undefined;
  readonly workdir: string | undefined;
}

export interface BuildBase extends ResolvedTemplate {
  /** Of an image; of a template it shows in its record. */
  readonly named?: NamedState;
}

type Base = Pick<BuildRecord, "defaultUser" | "defaultWorkdir" | "setup">;

export function beginDockerfile(
  state: StepState,
  base: { readonly build: Base; readonly named?: NamedState },
): StepState {
  const { user = "root", workdir = "/" } = base.named ?? namedBy(base.build);
  return { ...state, user, workdir };
}

function namedBy({ defaultUser, defaultWorkdir }: Base): NamedState {
  return {
    user: defaultUser === PLAIN_USER ? undefined : defaultUser,
    workdir: defaultWorkdir === PLAIN_WORKDIR ? undefined : defaultWorkdir,
  };
}

export function endDockerfile(
  state: StepState,
  base: Base,
  steps: readonly Pick<BuildStep, "type" | "args">[],
): StepState {
  const has = (type: BuildStep["type"]) => steps.some((step) => step.type === type);
  return {
    ...state,
    user: has("USER") ? state.user : base.defaultUser,
    workdir: has("WORKDIR") ? state.workdir : base.defaultWorkdir,
    environment: { ...state.environment, ...replacedByArg(base, steps) },
  };
}

/** The variables of the base that no ENV sets, with their values there. */
function replacedByArg(
  { setup }: Base,
  steps: readonly Pick<BuildStep, "type" | "args">[],
): Record<string, string> {
  const namesOf = (type: BuildStep["type"]) =>
    steps
      .filter((step) => step.type === type)
      .flatMap(({ args }) => args.filter((_arg, index) => index % 2 === 0));
  const own = setup?.environment ?? {};
  const [set, replaced] = [new Set(namesOf("ENV")), new Set(namesOf("ARG"))];
  const kept = Object.entries(own).filter(([name]) => replaced.has(name) && !set.has(name));
  return Object.fromEntries(kept);
}
