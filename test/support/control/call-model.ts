/** What calls make of a sandbox by its state, for tests that compare a service with a model. */

/** `halted` is paused without memory. */
export type State = "running" | "paused" | "halted" | "gone";
type Outcomes = Readonly<Record<State, Readonly<Record<number, State>>>>;

/** A call of `/sandboxes/{id}`. */
interface Operation {
  readonly method: string;
  readonly path: string;
  readonly body?: unknown;
  /** By the state before: each status that may come, and the state after it. */
  readonly outcomes: Outcomes;
}

/** Of a call that a running sandbox takes and that leaves it as it is. */
const onlyRunning = (done: number, refused: number): Outcomes => ({
  running: { [done]: "running" },
  paused: { [refused]: "paused" },
  halted: { [refused]: "halted" },
  gone: { 404: "gone" },
});
const always = (status: number, gone: number): Outcomes => ({
  running: { [status]: "running" },
  paused: { [status]: "paused" },
  halted: { [status]: "halted" },
  gone: { [gone]: "gone" },
});
const pausing = (after: State): Outcomes => ({
  running: { 204: after },
  paused: { 409: "paused" },
  halted: { 409: "halted" },
  gone: { 404: "gone" },
});
const waking = (running: number): Outcomes => ({
  running: { [running]: "running" },
  paused: { 201: "running" },
  halted: { 201: "running" },
  gone: { 404: "gone" },
});
const ending: Outcomes = {
  running: { 204: "gone" },
  paused: { 204: "gone" },
  halted: { 204: "gone" },
  gone: { 404: "gone" },
};

const post = (name: string, body: unknown, outcomes: Outcomes): Operation => ({
  method: "POST",
  path: `/${name}`,
  body,
  outcomes,
});
export const OPERATIONS: readonly Operation[] = [
  { method: "GET", path: "", outcomes: always(200, 404) },
  { method: "GET", path: "/logs", outcomes: always(200, 200) },
  { method: "GET", path: "/metrics", outcomes: always(200, 200) },
  { method: "DELETE", path: "", outcomes: ending },
  post("pause", {}, pausing("paused")),
  post("pause", { memory: false }, pausing("halted")),
  post("connect", { timeout: 3600 }, waking(200)),
  post("connect", { timeout: 3600, memory: false }, waking(200)),
  post("resume", { timeout: 3600 }, waking(409)),
  post("timeout", { timeout: 3600 }, onlyRunning(204, 404)),
  post("refreshes", { duration: 3600 }, onlyRunning(204, 404)),
  post("snapshots", {}, onlyRunning(201, 404)),
  {
    method: "PUT",
    path: "/network",
    body: { denyOut: ["203.0.113.0/24"] },
    outcomes: onlyRunning(204, 404),
  },
];

/** The states after the call; without an answer it came about, or not. */
export function follow(
  states: ReadonlySet<State>,
  { outcomes }: Operation,
  status: number | undefined,
): Set<State> {
  const before = [...states];
  if (status !== undefined)
    return new Set(before.flatMap((state) => outcomes[state][status] ?? []));
  const changed = before.flatMap((state) => Object.values(outcomes[state]));
  // A wake from the files alone first lets the memory go.
  const isWake = outcomes.paused[201] === "running";
  return new Set<State>([...before, ...changed, ...(isWake ? (["halted"] as const) : [])]);
}
