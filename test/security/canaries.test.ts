/**
 * R10: what only its owner may know, planted in every place that takes it and used, is afterwards in
 * no log, no database, no file of the home but its own, no process of the host, and no reply to
 * somebody else.
 */

import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { Sandbox } from "e2b";
import { expect, test } from "vitest";
import { startProgram } from "../support/program.ts";
import { tellCells } from "../support/run/cells.ts";
import { startServe, type TestServe } from "../support/serve.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

/** Files of the home that hold secrets on purpose, readable by its user alone. */
const SECRET_FILES = /^(?:seed|instances\/[^/]+\/token)$/;
/** What sandboxes own; daemons come from the build. */
const OF_SANDBOXES = /^(?:layers|daemon|volumes|instances\/[^/]+\/s)(?:\/|$)/;

const RANDOM = "7f3a91c05e";
const CANARIES = {
  "value of a variable": `canary-value-${RANDOM}`,
  "user of a call": `canary-user-${RANDOM}`,
  "uploaded body": `canary-body-${RANDOM}`,
  "wrong key": `e2b_${RANDOM.repeat(4)}`,
} as const;

test("R10 secrets that were used are found nowhere afterwards", async (context) => {
  await using folder = await makeTempFolder();
  const logFile = join(folder.path, "log");
  await using serve = await startServe(["--log-level", "trace", "--log-file", logFile]);
  const key = await createKey(serve.home);
  const options = { apiKey: key, apiUrl: serve.url, sandboxUrl: serve.url };
  const sandbox = await Sandbox.create("base", {
    ...options,
    envs: { CANARY: CANARIES["value of a variable"] },
    network: { allowPublicTraffic: false },
  });
  await sandbox.files.write("/home/user/file", CANARIES["uploaded body"]);
  const signed = new URL(await sandbox.downloadUrl("/home/user/file"));
  const download = await fetch(signed);
  expect(await download.text()).toBe(CANARIES["uploaded body"]);
  expect((await sandbox.commands.run("printf %s $CANARY")).stdout).toBe(
    CANARIES["value of a variable"],
  );
  const { sandboxId, envdAccessToken, trafficAccessToken } = await detailsOf(serve, key, sandbox);
  const secrets: Readonly<Record<string, string>> = {
    ...CANARIES,
    key: key,
    "token of a sandbox": envdAccessToken,
    "token of its ports": trafficAccessToken,
    signature: signed.searchParams.get("signature") ?? "",
    seed: await readFile(join(serve.home, "seed"), "hex"),
    "seed as text": await readFile(join(serve.home, "seed"), "base64"),
    "token of the door": (await readFile(join(serve.home, "instances/serve/token"), "utf8")).trim(),
  };
  expect(Object.values(secrets).filter((secret) => secret.length < 16)).toEqual([]);
  const replies = await askWrongly(serve, { sandboxId, key, envdAccessToken });
  await sandbox.pause();
  await sandbox.connect();
  await sandbox.kill();
  const places: Readonly<Record<string, string>> = {
    ...(await filesOf(serve.home)),
    ...(await processesOfHost()),
    "the log": await readFile(logFile, "latin1"),
    "standard error": serve.program.stderr(),
    ...replies,
  };
  expect(Object.keys(places).length).toBeGreaterThan(20);
  expect(places["the log"]).toContain(sandboxId);
  expect(places["state.db"]).toContain("SQLite");
  const found = Object.entries(places).flatMap(([place, content]) =>
    Object.entries(secrets).flatMap(([name, secret]) =>
      content.includes(secret) ? [`${name} in ${place}`] : [],
    ),
  );
  expect(found).toEqual([]);
  tellCells(context, Object.keys(secrets).length);
});

async function createKey(home: string): Promise<string> {
  await using program = startProgram(["key", "create", "canary", "--home", home]);
  return (await text(program.stdout)).trim();
}

interface Details {
  readonly sandboxId: string;
  readonly envdAccessToken: string;
  readonly trafficAccessToken: string;
}

/** What connect says to the owner. */
async function detailsOf(serve: TestServe, key: string, sandbox: Sandbox): Promise<Details> {
  const reply = await fetch(`${serve.url}/sandboxes/${sandbox.sandboxId}/connect`, {
    method: "POST",
    headers: { "x-api-key": key, "content-type": "application/json" },
    body: '{"timeout":300}',
  });
  const body = JSON.stringify(await reply.json());
  const field = (name: string) => new RegExp(`"${name}":"([^"]+)"`).exec(body)?.[1] ?? "";
  return {
    sandboxId: sandbox.sandboxId,
    envdAccessToken: field("envdAccessToken"),
    trafficAccessToken: field("trafficAccessToken"),
  };
}

/** Bodies of refusals, by what was wrong. */
async function askWrongly(
  serve: TestServe,
  known: { readonly sandboxId: string; readonly key: string; readonly envdAccessToken: string },
): Promise<Record<string, string>> {
  const inside = { "e2b-sandbox-id": known.sandboxId, "e2b-sandbox-port": "49983" };
  const basic = Buffer.from(`${CANARIES["user of a call"]}:`).toString("base64");
  const calls: Readonly<Record<string, [path: string, headers: Record<string, string>]>> = {
    "reply to a wrong key": ["/sandboxes", { "x-api-key": CANARIES["wrong key"] }],
    "reply to an unknown path": [`/nothing/${known.sandboxId}`, { "x-api-key": known.key }],
    "reply to an unknown sandbox": ["/sandboxes/i00000000000000000000", { "x-api-key": known.key }],
    "reply without a token": ["/files?path=/home/user/file", inside],
    "reply to a key at the daemon": [
      "/files?path=/home/user/file",
      { ...inside, "x-access-token": known.key },
    ],
    "reply of the host's own path": [
      "/init",
      { ...inside, "x-access-token": known.envdAccessToken },
    ],
    "reply to a key at /mcp": ["/mcp", { authorization: `Bearer ${CANARIES["wrong key"]}` }],
  };
  const replies: Record<string, string> = {};
  for (const [name, [path, headers]] of Object.entries(calls)) {
    const reply = await fetch(`${serve.url}${path}`, { headers });
    expect([name, reply.status >= 400]).toEqual([name, true]);
    replies[name] = JSON.stringify([...reply.headers]) + (await reply.text());
  }
  // The name of an unknown user may be said to whoever sent it, and to nobody else.
  await fetch(`${serve.url}/files?path=a`, {
    headers: {
      ...inside,
      "x-access-token": known.envdAccessToken,
      authorization: `Basic ${basic}`,
    },
  });
  return replies;
}

/** Every file of the home that may not hold a secret, by its path. */
async function filesOf(home: string): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  const entries = await readdir(home, { recursive: true, withFileTypes: true });
  for (const entry of entries.filter((one) => one.isFile())) {
    const path = join(entry.parentPath, entry.name).slice(home.length + 1);
    if (SECRET_FILES.test(path) || OF_SANDBOXES.test(path)) continue;
    found[path] = await readFile(join(home, path), "latin1");
  }
  return found;
}

/** Arguments and environments of all processes but this one and those in sandboxes. */
async function processesOfHost(): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  for (const pid of (await readdir("/proc")).filter((name) => /^\d+$/.test(name))) {
    const read = async (name: string) => readFile(`/proc/${pid}/${name}`, "latin1").catch(() => "");
    if (Number(pid) === process.pid || (await read("cgroup")).includes("/sandbox-mcp/")) continue;
    for (const name of ["cmdline", "environ"]) found[`/proc/${pid}/${name}`] = await read(name);
  }
  return found;
}
