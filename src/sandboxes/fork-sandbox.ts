/** Forks: new sandboxes that begin with the files of a running one, which goes on. */

import { createGate } from "../common/concurrency.ts";
import { SandboxError } from "../common/errors.ts";
import { step } from "../common/steps.ts";
import type { BuildRecord, SandboxRecord } from "../store/store.ts";
import { randomId } from "../wire/address.ts";
import { networkSchema } from "../wire/control.ts";
import {
  forkTooMany,
  MESSAGES,
  sandboxCannotBe,
  sandboxMissing,
  sandboxPausedFork,
} from "../wire/messages.ts";
import type { CreatePlan } from "./create-plan.ts";
import { startInPlace } from "./create-sandbox.ts";
import { changeState, findMember, type Domain, type Member } from "./domain.ts";
import { releaseForkBuild } from "./fork-builds.ts";
import type { Sandbox } from "./sandbox.ts";
import { openEnvironment } from "./secrets.ts";
import type { Reservation } from "./team-quota.ts";
import { checkTimeout } from "./timeout.ts";
import { writeBuild } from "./write-build.ts";

const MAX_FORKS = 100;

/** Each start is a few processes and mounts. */
const STARTS_AT_ONCE = 4;

export interface ForkOptions {
  readonly count: number;
  readonly timeoutSeconds: number;
}

/** One fork, or why it did not come about. */
export type ForkResult = { readonly sandbox: Sandbox } | { readonly error: unknown };

/**
 * Copies the files of a running sandbox once and starts `count` sandboxes on the copy. They have
 * identities, tokens and lives of their own, and everything else as the source; they do not have
 * its memory. Durable when it resolves.
 * @throws SandboxError invalid_argument for a bad count, not_found, failed_precondition unless it
 * runs and rests.
 */
export async function forkSandbox(
  domain: Domain,
  sandboxId: string,
  options: ForkOptions,
): Promise<ForkResult[]> {
  checkOptions(domain, options);
  const member = requireForkable(domain, sandboxId);
  const source = member.record;
  // All at once and before anything is copied, so that no other create takes one meanwhile.
  using taken = takePlaces(domain, options.count);
  const { places, refusals } = taken;
  if (places.length === 0) return refusals;
  const build = await copyFiles(domain, member);
  const { buildId } = build;
  const gate = createGate(STARTS_AT_ONCE);
  const signal = domain.closing;
  try {
    await step("fork.copied");
    const plan = toPlan(domain, source, { build, timeoutSeconds: options.timeoutSeconds });
    const starts = places.map((place) =>
      gate.run(async () => {
        using own = place;
        return await startInPlace(domain, plan, { place: own, signal });
      }),
    );
    const results = await Promise.allSettled(starts);
    await step("fork.started");
    domain.log.info(
      { op: "sandbox.fork", sandboxId, count: options.count, outcome: "ok" },
      "sandbox.fork ok",
    );
    const outcomes = results.map((result) =>
      result.status === "fulfilled" ? { sandbox: result.value } : { error: result.reason },
    );
    return [...outcomes, ...refusals];
  } finally {
    domain.forking.delete(buildId);
    await releaseForkBuild(domain, buildId);
    await step("fork.released");
  }
}

/** As many places as there are, and a refusal for each of the others. */
function takePlaces({ places: all, team }: Domain, count: number) {
  const stack = new DisposableStack();
  const places: Reservation[] = [];
  const refusals: ForkResult[] = [];
  for (let index = 0; index < count; index += 1) {
    try {
      places.push(stack.use(all.take(team)));
    } catch (error) {
      refusals.push({ error });
    }
  }
  return { places, refusals, [Symbol.dispose]: () => stack.dispose() };
}

function checkOptions(domain: Domain, { count, timeoutSeconds }: ForkOptions): void {
  const { limit } = domain.places.sharesOf(domain.team);
  checkTimeout(timeoutSeconds);
  if (count < 1) throw refuse(MESSAGES.forkTooFew);
  if (count > MAX_FORKS) throw refuse(`Count cannot be greater than ${MAX_FORKS}`);
  if (count >= limit) throw refuse(forkTooMany(limit));
}

function refuse(message: string): SandboxError {
  return new SandboxError("invalid_argument", message);
}

function requireForkable(domain: Domain, sandboxId: string): Member {
  const member = findMember(domain, sandboxId);
  if (member === undefined) throw new SandboxError("not_found", sandboxMissing(sandboxId));
  const state = member.ending === undefined ? member.phase : "killing";
  if (state === "running") return member;
  throw new SandboxError(
    "failed_precondition",
    state === "paused" ? sandboxPausedFork(sandboxId) : sandboxCannotBe("forked", sandboxId, state),
  );
}

async function copyFiles(domain: Domain, member: Member): Promise<BuildRecord> {
  domain.logBook.note(member.record, "Forking sandbox");
  const { promise, resolve: done } = Promise.withResolvers<BuildRecord>();
  await changeState(member, "snapshotting", async () => {
    const build = await writeBuild(domain, member, {
      // No template has this identifier: the build is the forks' alone.
      templateId: randomId(),
      commit(ready) {
        domain.forking.add(ready.buildId);
        domain.store.builds.put(ready);
        return ready;
      },
    });
    done(build);
    return "running";
  });
  domain.noteExpiry();
  return promise;
}

function toPlan(
  domain: Domain,
  source: SandboxRecord,
  { build, timeoutSeconds }: { readonly build: BuildRecord; readonly timeoutSeconds: number },
): CreatePlan {
  const template = domain.store.templates.get(source.templateId);
  if (template === undefined) {
    throw new SandboxError("internal", `template ${source.templateId} is gone`);
  }
  return {
    resolved: { template, build },
    mounts: source.volumeMounts,
    options: {
      template: source.templateId,
      timeoutSeconds,
      isSecured: source.isSecured,
      pausesAtTimeout: source.pausesAtTimeout,
      keepsMemory: source.keepsMemory,
      resumesOnTraffic: source.resumesOnTraffic,
      allowsInternet: source.allowsInternet ?? undefined,
      network: source.network === null ? undefined : networkSchema.parse(source.network),
      metadata: source.metadata ?? undefined,
      volumeMounts: source.volumeMounts,
      mcpServers: source.mcpServers,
      environment: openEnvironment(domain.secrets, source.sealedEnvironment),
    },
  };
}
