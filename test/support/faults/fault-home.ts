/** A home whose `serve` is ended, broken and started again: plans for its steps, calls to its routes. */

import { randomBytes } from "node:crypto";
import { rename, rm, stat, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { z } from "../../../src/common/schema.ts";
import { takeCensus } from "../census.ts";
import { openTestHome, type TestHome } from "../home.ts";
import { PROGRAM, listeningUrl, startProgram, type TestProgram } from "../program.ts";
import { makeTempFolder } from "../temp-folder.ts";
import { PLAN_ENDS, PLAN_VARIABLE, type StepPlan } from "./step-listener.ts";

const LISTENER = resolve(import.meta.dirname, "step-listener.ts");
const HIT_LIMIT_MS = 30_000;
const POLL_MS = 5;
const DAEMON_PORT = "49983";

export interface Answer {
  readonly status: number;
  readonly body: unknown;
}

export interface FaultHome extends AsyncDisposable {
  readonly path: string;
  /** How long each start took until the service answered, in milliseconds. */
  readonly startsMs: readonly number[];
  /** Starts `serve`, which does not run; further modules are loaded before this one. */
  start(preloads?: readonly string[]): Promise<void>;
  isRunning(): boolean;
  /** Ends it, politely or not, and waits until it is gone. */
  stop(signal: "SIGTERM" | "SIGKILL"): Promise<void>;
  /** Stops it, or lets it go on. */
  signal(signal: "SIGSTOP" | "SIGCONT"): void;
  /** Resolves when it ended by itself. */
  ended(): Promise<void>;
  plan(plan: StepPlan): Promise<void>;
  /** Resolves when the planned moment has come. */
  hit(): Promise<void>;
  /** Whether it has come; the plan is forgotten. */
  takeHit(): Promise<boolean>;
  /** Lets what is held go on. */
  release(): Promise<void>;
  /** A call of the control API; undefined when the service died instead of answering. */
  call(method: string, path: string, body?: unknown): Promise<Answer | undefined>;
  /** Sends bytes to an address that a reply named. */
  put(url: string, body: Uint8Array<ArrayBuffer>): Promise<Answer | undefined>;
  /** A call to the daemon of an unsecured sandbox, its body as text. */
  enter(sandboxId: string, path: string, upload?: string): Promise<Answer | undefined>;
  /** What a client library needs to reach the service that runs now. */
  client(): {
    readonly apiKey: string;
    readonly apiUrl: string;
    readonly sandboxUrl: string;
  };
  stderr(): string;
}

/** Opens the home; flags are those of `serve`, and these modules are loaded before each. */
export async function openFaultHome(
  flags: readonly string[] = [],
  makeHome: () => Promise<TestHome> = openTestHome,
  modules: readonly string[] = [],
): Promise<FaultHome> {
  await using stack = new AsyncDisposableStack();
  const folder = stack.use(await makeHome());
  const key = `e2b_${randomBytes(20).toString("hex")}`;
  const plans = stack.use(await makeTempFolder());
  const planPath = join(plans.path, "plan");
  const startsMs: number[] = [];
  let program: TestProgram | undefined;
  let url = "";

  const isThere = async (end: string) =>
    stat(planPath + end).then(
      () => true,
      () => false,
    );

  const stop = async (signal: "SIGTERM" | "SIGKILL") => {
    program?.child.kill(signal);
    await program?.exited();
    program = undefined;
  };

  const send = async (path: string, init: RequestInit): Promise<Answer | undefined> => {
    let reply: Response;
    try {
      reply = await fetch(url + path, init);
      const text = await reply.text();
      const isJson = reply.headers.get("content-type")?.includes("json") ?? false;
      return { status: reply.status, body: isJson ? JSON.parse(text) : text };
    } catch {
      return undefined;
    }
  };

  stack.defer(async () => {
    await startProgram(["gc", "--home", folder.path]).exited();
  });
  stack.defer(() => stop("SIGTERM"));
  const owned = stack.move();
  return {
    path: folder.path,
    startsMs,
    async start(preloads = []) {
      const startedMs = performance.now();
      const words = ["serve", "--home", folder.path, "--port", "0", ...flags];
      const environment = { SANDBOX_MCP_API_KEY: key, [PLAN_VARIABLE]: planPath };
      const imports = [LISTENER, ...modules, ...preloads].map((path) => `--import=${path}`);
      const command = [process.execPath, ...imports, PROGRAM] as const;
      program = startProgram(words, environment, command);
      url = await listeningUrl(program);
      await fetch(`${url}/v2/sandboxes`, { headers: { "x-api-key": key } });
      startsMs.push(Math.round(performance.now() - startedMs));
    },
    isRunning: () =>
      program !== undefined && program.child.exitCode === null && program.child.signalCode === null,
    stop,
    signal: (signal) => void program?.child.kill(signal),
    async ended() {
      await program?.exited();
      program = undefined;
    },
    async plan(plan) {
      for (const end of Object.values(PLAN_ENDS)) await rm(planPath + end, { force: true });
      await writeFile(`${planPath}.new`, JSON.stringify(plan));
      await rename(`${planPath}.new`, planPath);
    },
    async hit() {
      const endMs = performance.now() + HIT_LIMIT_MS;
      while (!(await isThere(PLAN_ENDS.hit))) {
        if (performance.now() > endMs) throw new Error("the planned moment did not come");
        await new Promise((done) => setTimeout(done, POLL_MS));
      }
    },
    async takeHit() {
      await rm(planPath, { force: true });
      return isThere(PLAN_ENDS.hit);
    },
    release: () => writeFile(planPath + PLAN_ENDS.release, ""),
    call: (method, wanted, body) =>
      send(wanted, {
        method,
        headers: { "x-api-key": key, "content-type": "application/json" },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      }),
    put: (address, body) => send(new URL(address).pathname, { method: "PUT", body }),
    enter: (sandboxId, wanted, upload) =>
      send(wanted, {
        headers: {
          "e2b-sandbox-id": sandboxId,
          "e2b-sandbox-port": DAEMON_PORT,
          "content-type": "application/octet-stream",
        },
        ...(upload !== undefined && { method: "POST", body: upload }),
      }),
    client: () => ({ apiKey: key, apiUrl: url, sandboxUrl: url }),
    stderr: () => program?.stderr() ?? "",
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

const listedSchema = z.array(
  z.object({ sandboxID: z.string(), state: z.string(), endAt: z.string() }),
);
const madeSchema = z.object({ sandboxID: z.string() });

export type Listed = z.infer<typeof listedSchema>[number];

/** What the service says there is. */
export async function listAll(home: FaultHome): Promise<readonly Listed[]> {
  const answer = await home.call("GET", "/v2/sandboxes?state=running,paused&limit=100");
  return listedSchema.parse(answer?.body);
}

/** An unsecured sandbox that lives for an hour, unless the wishes say otherwise. */
export async function make(
  home: FaultHome,
  wishes: Readonly<Record<string, unknown>> = {},
): Promise<string> {
  const body = { templateID: "base", timeout: 3600, secure: false, ...wishes };
  const answer = await home.call("POST", "/sandboxes", body);
  return madeSchema.parse(answer?.body).sandboxID;
}

/** Of a home without sandboxes whose service has ended: what it left of them on the machine. */
export async function findRemains(home: FaultHome): Promise<readonly string[]> {
  const census = await takeCensus(home.path);
  const { processes, mounts, loopDevices, cgroups, idClaims, sockets } = census;
  return [processes, mounts, loopDevices, cgroups, idClaims, sockets].flat();
}
