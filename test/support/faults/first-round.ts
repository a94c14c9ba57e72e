/** One round of a first run: an empty home, servers and creates at once, a kill, another start. */

import { readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { expect } from "vitest";
import type { StepName } from "../../../src/common/steps.ts";
import { startProgram } from "../program.ts";
import type { Random } from "../random.ts";
import { FIRST_STEPS } from "./fault-cases.ts";
import { environmentOf, type Installed, type Person } from "./first-run.ts";
import { startFirstServer, type FirstServer, type ServerKind } from "./first-server.ts";
import { PLAN_ENDS } from "./step-listener.ts";

/** When the first server is killed. */
export type Kill =
  | { readonly at: "never" }
  /** Milliseconds after its start. */
  | { readonly at: "moment"; readonly ms: number }
  | { readonly at: "step"; readonly step: StepName };

export interface Round {
  readonly kind: ServerKind;
  /** Those beside a `serve` are `stdio`, and use it. */
  readonly servers: number;
  /** Creates at once on each server. */
  readonly creates: number;
  readonly kill: Kill;
}

/** The first start of a slow machine takes longer than this; then it is killed in its first half. */
const MAX_KILL_MS = 4_000;
/** A clean-up ends sandboxes before it removes drafts, and waits for that of every other start. */
const CLEAN_UP_LIMIT_MS = 60_000;

/** Any round, by chance. */
export function randomRound(random: Random): Round {
  const kinds = ["never", "moment", "step"] as const;
  const at = random.pick(kinds);
  const kill: Kill =
    at === "moment"
      ? { at, ms: random.below(MAX_KILL_MS) }
      : at === "step"
        ? { at, step: random.pick(FIRST_STEPS) }
        : { at };
  const kind = random.once(4) ? "serve" : "stdio";
  // What uses a `serve` that is killed has lost its service.
  const servers = kind === "serve" && at !== "never" ? 1 : random.pick([1, 5]);
  return { kind, servers, creates: random.pick([1, 2]), kill };
}

/** Runs it; returns how many creates there were that nobody killed. All of them worked. */
export async function runRound(
  installed: Installed,
  person: Person,
  round: Round,
): Promise<number> {
  await using stack = new AsyncDisposableStack();
  await person.clear();
  const keys: string[] = [];
  const { planPath } = installed;
  for (const end of Object.values(PLAN_ENDS)) await rm(planPath + end, { force: true });
  const { kill } = round;
  if (kill.at === "step") {
    await writeFile(planPath, JSON.stringify({ step: kill.step, action: "kill" }));
  } else await rm(planPath, { force: true });
  const start = (kind: ServerKind, isPlanned: boolean) => {
    const plan = isPlanned ? planPath : undefined;
    const server = startFirstServer({ installed, person, kind, keys, planPath: plan });
    // Also where the round fails before it ends them.
    stack.use(server.program);
    return server;
  };
  const servers = Array.from({ length: round.servers }, (_none, index) =>
    start(index === 0 ? round.kind : "stdio", index === 0 && kill.at === "step"),
  );
  const faults: string[] = [];
  let count = 0;
  const use = async (server: FirstServer, creates: number): Promise<void> => {
    await server.ready();
    const all = await Promise.allSettled(Array.from({ length: creates }, () => server.create()));
    for (const result of all) if (result.status === "rejected") throw result.reason;
    count += creates;
  };
  const [first, ...others] = servers;
  const uses = servers.map((server) => use(server, round.creates));
  if (first !== undefined && kill.at === "moment") {
    await Promise.race([delay(kill.ms), Promise.allSettled([uses[0]])]);
    first.program.child.kill("SIGKILL");
  }
  const results = await Promise.allSettled(uses);
  for (const [index, result] of results.entries()) {
    const isKilled = index === 0 && kill.at !== "never";
    if (result.status === "rejected" && !isKilled) faults.push(String(result.reason));
  }
  if (first !== undefined && kill.at !== "never") {
    first.program.child.kill("SIGKILL");
    await first.program.exited();
    const again = start(round.kind, false);
    await use(again, 2).catch((error: unknown) => faults.push(`after the kill: ${String(error)}`));
    const drafts = async () => (await listDrafts(person.home)).join(" ");
    const limit = { message: "drafts", timeout: CLEAN_UP_LIMIT_MS };
    if (faults.length === 0) await expect.poll(drafts, limit).toBe("");
    others.push(again);
  } else if (first !== undefined) others.push(first);
  for (const server of others.toReversed()) await server.end();
  // An expectation would cut the text.
  if (faults.length > 0) throw new Error(faults.join("; "));
  await collect(installed, person);
  return count;
}

/** Half-made things of the home. */
async function listDrafts(home: string): Promise<string[]> {
  const folders = [join(home, "layers"), join(home, "daemon")];
  const names = await Promise.all(folders.map(async (folder) => readdir(folder).catch(() => [])));
  return names.flat().filter((name) => name.endsWith(".part"));
}

/** After everything ended and was collected, there is one of each thing. */
async function collect(installed: Installed, person: Person): Promise<void> {
  const command = [...person.command, installed.program] as const;
  const [first, ...rest] = command;
  const gc = startProgram(["gc"], environmentOf(person), [first, ...rest]);
  expect([await gc.exited(), gc.stderr()]).toEqual([0, ""]);
  const layers = await readdir(join(person.home, "layers"));
  expect(layers.filter((name) => !name.startsWith("base-"))).toHaveLength(
    person.name === "root" ? 1 : 0,
  );
  expect(await readdir(join(person.home, "daemon"))).toHaveLength(1);
  expect((await readdir(join(person.home, "instances"))).join(" "), "instances").toBe("");
}
