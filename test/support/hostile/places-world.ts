/** Teams that take, free and lose places in an order that chance gives, and what was promised them. */

import { SandboxError } from "../../../src/common/errors.ts";
import {
  createTeamQuota,
  type Reservation,
  type TeamQuota,
} from "../../../src/sandboxes/team-quota.ts";
import type { Random } from "../random.ts";

/** Teams with their starts and sandboxes, and what the rule promised about them. */
export class PlacesWorld {
  /** What was not as promised. */
  readonly faults: string[] = [];
  readonly teams: readonly string[];
  readonly maxSandboxes: number;
  readonly #random: Random;
  readonly #places: TeamQuota;
  readonly #alive = new Map<string, number>();
  readonly #starting: { readonly team: string; readonly place: Reservation }[] = [];
  readonly #keyed: Set<string>;
  /** Once a key was made or taken away, others may have what is now somebody's share. */
  #isSteady = true;

  constructor(random: Random) {
    this.#random = random;
    this.teams = ["a", "b", "c", "d", "e"].slice(0, 2 + random.below(4));
    this.maxSandboxes = 1 + random.below(30);
    this.#keyed = new Set(this.teams);
    this.#places = createTeamQuota({
      maxSandboxes: this.maxSandboxes,
      maxSandboxesPerTeam: random.once(2) ? undefined : 1 + random.below(30),
      teams: () => [...this.#keyed],
      count: () => this.#alive,
    });
  }

  step(): void {
    const team = this.#random.pick(this.teams);
    const kind = this.#random.below(20);
    if (kind < 11) this.create(team);
    else if (kind < 14) this.#finishStart();
    else if (kind < 19) this.#end(team);
    else this.#changeKey(team);
    const total = this.teams.reduce((sum, name) => sum + this.count(name), 0);
    this.#claim(total <= this.maxSandboxes, `${total} of ${this.maxSandboxes}`);
    const { starting } = this.#places;
    this.#claim(starting === this.#starting.length, `${starting} starting`);
  }

  count(team: string): number {
    const starting = this.#starting.filter((start) => start.team === team).length;
    return starting + (this.#alive.get(team) ?? 0);
  }

  create(team: string): void {
    const own = this.count(team);
    const total = this.teams.reduce((sum, name) => sum + this.count(name), 0);
    const { limit, guaranteed } = this.#places.sharesOf(team);
    try {
      this.#starting.push({ team, place: this.#places.take(team) });
    } catch (error) {
      this.#checkRefusal(error, { own, limit, guaranteed, total });
      return;
    }
    this.#claim(own < limit, `${team} had ${own} of ${limit} and got one more`);
    this.#claim(total < this.maxSandboxes, "one more than all");
    // What a team takes beyond its share leaves the whole share of every other team.
    if (this.#isSteady && own >= guaranteed) this.#checkRoom();
  }

  #checkRoom(): void {
    const wanted = this.teams.reduce(
      (sum, name) => sum + Math.max(this.count(name), this.#places.sharesOf(name).guaranteed),
      0,
    );
    this.#claim(wanted <= this.maxSandboxes, `shares need ${wanted}`);
  }

  #checkRefusal(
    error: unknown,
    facts: { readonly own: number; limit: number; guaranteed: number; total: number },
  ): void {
    const { own, limit, guaranteed, total } = facts;
    const text = String(error);
    const isCode = error instanceof SandboxError && error.code === "resource_exhausted";
    const figures = `your team has ${own} of at most ${limit}, paused ones included, the service takes ${this.maxSandboxes}`;
    this.#claim(isCode && text.includes(figures), text);
    const isShareTaken = own < guaranteed && (this.#isSteady || total < this.maxSandboxes);
    this.#claim(!isShareTaken, `refused with ${own} of ${guaranteed}, ${total} in all`);
  }

  /** Succeeds or fails; a place is freed once, whoever frees it how often. */
  #finishStart(): void {
    const [start] = this.#starting.splice(this.#random.below(this.#starting.length || 1), 1);
    if (start === undefined) return;
    start.place[Symbol.dispose]();
    if (this.#random.once(2)) start.place[Symbol.dispose]();
    if (this.#random.below(10) < 8) {
      this.#alive.set(start.team, (this.#alive.get(start.team) ?? 0) + 1);
    }
  }

  #end(team: string): void {
    this.#alive.set(team, Math.max((this.#alive.get(team) ?? 0) - 1, 0));
  }

  #changeKey(team: string): void {
    if (!this.#random.once(8)) return;
    this.#isSteady = false;
    if (!this.#keyed.delete(team)) this.#keyed.add(team);
  }

  #claim(isTrue: boolean, what: string): void {
    if (!isTrue) this.faults.push(what);
  }
}
