/**
 * R3: archives of COPY steps that were made to do harm are refused or harmless, and nothing outside
 * the layer changes. All are built at once, each for a template of its own.
 */

import { randomBytes } from "node:crypto";
import { lstat, readdir } from "node:fs/promises";
import { request } from "node:http";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Sandbox } from "e2b";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createSystemClock } from "../../../src/common/clock.ts";
import { z } from "../../../src/common/schema.ts";
import { createKey } from "../../../src/sandboxes/keys.ts";
import { openStore } from "../../../src/store/sqlite.ts";
import {
  HARMLESS,
  HOSTILE_COPIES,
  type HostileCopy,
} from "../../support/hostile/hostile-copies.ts";
import { tar } from "../../support/images/tar-writer.ts";
import { startServe, type TestServe } from "../../support/serve.ts";

const LIMIT_MS = 180_000;
const POLL_MS = 200;
const MEGABYTES = 96;

const madeSchema = z.object({ templateID: z.string(), buildID: z.string() });
const filesSchema = z.object({ present: z.boolean(), url: z.string() });
const statusSchema = z.object({
  status: z.enum(["waiting", "building", "ready", "error"]),
  reason: z.object({ message: z.string() }).optional(),
});

interface Outcome {
  readonly name: string;
  readonly reason: string;
}

let serve: TestServe;
let before: readonly string[];
const outcomes = new Map<HostileCopy, Promise<Outcome>>();

beforeAll(async () => {
  serve = await startServe(["--pool", "0", "--disk-mb", String(MEGABYTES)]);
  before = await layers();
  for (const [index, copy] of HOSTILE_COPIES.entries()) {
    const outcome = (await begin(copy, `copy-${index}`))();
    // Each is awaited by its test.
    outcome.catch(() => undefined);
    outcomes.set(copy, outcome);
  }
}, LIMIT_MS);
afterAll(() => serve[Symbol.asyncDispose]());

interface Request {
  readonly body?: object;
  /** Default: of the team whose archives these are. */
  readonly key?: string | undefined;
}

async function call(method: string, path: string, { body, key = serve.apiKey }: Request = {}) {
  const reply = await fetch(`${serve.url}${path}`, {
    method,
    headers: { "x-api-key": key, "content-type": "application/json" },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await reply.text();
  return { status: reply.status, body: text === "" ? undefined : JSON.parse(text) };
}

async function requestBuild(name: string, key?: string) {
  return madeSchema.parse((await call("POST", "/v3/templates", { body: { name }, key })).body);
}

function newHash(): string {
  return randomBytes(32).toString("hex");
}

/** The status of the reply to an archive under a hash. */
async function upload(templateId: string, hash: string, archive: Buffer): Promise<number> {
  const { body } = await call("GET", `/templates/${templateId}/files/${hash}`);
  const { url } = filesSchema.parse(body);
  const reply = await fetch(url, { method: "PUT", body: new Uint8Array(archive) });
  return reply.status;
}

interface Step {
  readonly hash: string;
  readonly args: readonly string[];
}

async function runBuild(
  made: z.infer<typeof madeSchema>,
  { hash, args }: Step,
  key?: string,
): Promise<string> {
  const { templateID, buildID } = made;
  const steps = [{ type: "COPY", args, filesHash: hash }];
  const path = `/v2/templates/${templateID}/builds/${buildID}`;
  const begun = await call("POST", path, { body: { fromTemplate: "base", steps }, key });
  if (begun.status !== 202) return `${begun.status}`;
  for (;;) {
    const { body } = await call("GET", `/templates/${templateID}/builds/${buildID}/status`, {
      key,
    });
    const { status, reason } = statusSchema.parse(body);
    if (status === "ready") return "";
    if (status === "error") return reason?.message ?? "";
    await delay(POLL_MS);
  }
}

/** Sends the archive and begins the build; a team has only so many uploads at once. */
async function begin(copy: HostileCopy, name: string): Promise<() => Promise<Outcome>> {
  const made = await requestBuild(name);
  const hash = newHash();
  expect(await upload(made.templateID, hash, copy.archive)).toBe(201);
  const [source, target] = copy.args ?? [".", "/srv/in/"];
  const step = { hash, args: [source, target, copy.owner ?? "", ""] };
  return async () => ({ name, reason: await runBuild(made, step) });
}

async function layers(): Promise<string[]> {
  return (await readdir(join(serve.home, "layers"))).toSorted();
}

async function say(template: string, command: string): Promise<string> {
  const { url, apiKey } = serve;
  const sandbox = await Sandbox.create(template, { apiKey, apiUrl: url, sandboxUrl: url });
  try {
    return (await sandbox.commands.run(`${command}; true`)).stdout;
  } finally {
    await sandbox.kill();
  }
}

test.for(HOSTILE_COPIES)("R3 copy: $name", { timeout: LIMIT_MS }, async (copy) => {
  const { name, reason } = (await outcomes.get(copy)) ?? { name: "", reason: "" };
  expect(reason).toMatch(copy.refused ?? /^$/);
  if (reason !== "") return;
  const [command, output] = copy.seen ?? HARMLESS;
  expect(await say(name, `${HARMLESS[0]}; ${command}`)).toBe(`${HARMLESS[1]}${output}`);
});

test("R3 copy: no layer of a refused archive stays, and none has a device", async () => {
  const all = await Promise.all(outcomes.values());
  const ready = all.filter(({ reason }) => reason === "").length;
  const made = (await layers()).filter((name) => !before.includes(name));
  expect(made.filter((name) => name.endsWith(".part"))).toEqual([]);
  expect(made.length).toBeLessThanOrEqual(ready);
  for (const layer of made) {
    const root = join(serve.home, "layers", layer);
    for (const name of await readdir(root, { recursive: true })) {
      const entry = await lstat(join(root, name));
      expect([name, entry.isBlockDevice() || entry.isCharacterDevice()]).toEqual([name, false]);
      expect([name, entry.blocks * 512 > MEGABYTES * 1024 ** 2]).toEqual([name, false]);
    }
  }
});

test(
  "R3 copy: an archive under another name, of another length or of another team",
  async () => {
    const made = await requestBuild("names");
    for (const hash of ["..%2f..%2fetc%2fpasswd", "0".repeat(5_000), "%00", "a b"]) {
      const { status } = await call("GET", `/templates/${made.templateID}/files/${hash}`);
      expect([400, 404, 414, 431]).toContain(status);
    }
    const hash = newHash();
    const args = [".", "/srv/in/", "", ""];
    const { body } = await call("GET", `/templates/${made.templateID}/files/${hash}`);
    const { url } = filesSchema.parse(body);
    const archive = tar({ path: "a", data: "mine" });
    for (const length of [archive.length + 1, archive.length - 1, undefined]) {
      expect(await put(url, archive, length)).not.toBe(201);
    }
    const other = `${url.slice(0, -1)}${url.endsWith("0") ? "1" : "0"}`;
    expect(await put(other, archive, archive.length)).toBe(403);
    expect(await runBuild(made, { hash, args })).toMatch(/were not uploaded/);
    expect(await put(url, archive, archive.length)).toBe(201);
    const key = foreignKey();
    const foreign = await requestBuild("theirs", key);
    const asked = await call("GET", `/templates/${foreign.templateID}/files/${hash}`, { key });
    expect(filesSchema.parse(asked.body).present).toBe(false);
    expect(await runBuild(foreign, { hash, args }, key)).toMatch(/were not uploaded/);
    const again = await requestBuild("names");
    expect(await runBuild(again, { hash, args })).toBe("");
  },
  LIMIT_MS,
);

/** The status of an upload that claims this length; 0 for a connection that ends without one. */
function put(url: string, archive: Buffer, length: number | undefined): Promise<number> {
  const { promise, resolve } = Promise.withResolvers<number>();
  const headers = length === undefined ? {} : { "content-length": length };
  const sent = request(url, { method: "PUT", headers }, (reply) => {
    reply.resume();
    resolve(reply.statusCode ?? 0);
  });
  sent.once("error", () => resolve(0));
  // What is written beyond the length is not sent by Node either, so the socket is closed early.
  sent.write(length === archive.length - 1 ? archive.subarray(0, length - 1) : archive);
  if (length === undefined || length === archive.length) sent.end();
  else setTimeout(() => sent.destroy(), POLL_MS);
  return promise;
}

function foreignKey(): string {
  using store = openStore({ path: join(serve.home, "state.db") });
  return createKey(store, createSystemClock(), { name: "x", team: "others" }).key;
}
