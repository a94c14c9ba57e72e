/** What a build of a random sequence does, and what a sandbox of it has. */

import type { Random } from "../random.ts";
import { NAMES, TAGS, type Content } from "./template-model.ts";

const MARKS = ["m0", "m1", "m2"];

export interface Plan {
  readonly plan: object;
  readonly content: Content;
}

/** A command that writes a file, or none; one that is forced runs although its result is known. */
interface Command {
  readonly written: string | undefined;
  readonly force: boolean;
}

export function createPlan(random: Random): Plan {
  const written = random.once(4) ? random.pick(MARKS) : undefined;
  return createPlanWith({ written, force: random.once(8) }, random);
}

/** It starts a sandbox for its command, and so runs for longer than the start of another build. */
export function createSlowPlan(random: Random): Plan {
  return createPlanWith({ written: random.pick(MARKS), force: true }, random);
}

function createPlanWith({ written, force }: Command, random: Random): Plan {
  const mark = random.pick(MARKS);
  const copied = random.once(5) ? random.pick(MARKS) : undefined;
  const upon = `${random.pick(NAMES)}:${random.pick(TAGS)}`;
  const fromTemplate = random.once(5) ? upon : "base";
  const command = `sleep 0.${random.below(5)}; echo ${written} > /home/user/written`;
  const steps = [
    { type: "ENV", args: ["MARK", mark] },
    ...(written === undefined ? [] : [{ type: "RUN", args: [command], force }]),
    ...(copied === undefined
      ? []
      : [{ type: "COPY", args: ["a.txt", "/home/user/", "", ""], filesHash: hashOf(copied) }]),
  ];
  return { plan: { fromTemplate, steps }, content: { mark, written, copied } };
}

/** A template upon another one may have more than its own plan says. */
export function isOfContent(found: Content, wanted: Content): boolean {
  return (
    found.mark === wanted.mark &&
    (wanted.written === undefined || found.written === wanted.written) &&
    (wanted.copied === undefined || found.copied === wanted.copied)
  );
}

/** Of the archive with this file. */
export function hashOf(copied: string): string {
  return Buffer.from(copied).toString("hex").padEnd(64, "0");
}
