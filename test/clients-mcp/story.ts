/** The main job as a foreign client does it, step by step. */

import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import manifest from "../../tools.manifest.json" with { type: "json" };
import type { Steps } from "../demo/steps.ts";
import type { ForeignKind } from "./clients.ts";
import { callsOfEveryTool } from "./every-tool.ts";
import type { ForeignClient, ForeignReply } from "./foreign-client.ts";

/** One red pixel. */
export const PIXEL =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg==";
const POLL_MS = 100;
const POLL_LIMIT_MS = 30_000;

/** Arguments that no tool takes as they are, with what the reply names. */
const MALFORMED: readonly { readonly input: object; readonly names: RegExp }[] = [
  { input: { cmd: 5 }, names: /cmd/ },
  { input: { cmd: ["ls"] }, names: /cmd/ },
  { input: {}, names: /cmd/ },
  { input: { cmd: "ls", wait_seconds: "soon" }, names: /wait_seconds/ },
  { input: { cmd: "ls", wait_seconds: 1e9 }, names: /wait_seconds/ },
  { input: { cmd: "ls", no_such: true }, names: /no_such/ },
  { input: { cmd: "ls", args: "none" }, names: /args/ },
  { input: { cmd: "ls", env: 7 }, names: /env/ },
];
/** What models send for an optional that they leave out. */
const TOLERATED: readonly object[] = [
  { cwd: null, user: "", args: [] },
  { env: [], stdin: null },
  { env: { A: "1" } },
  { env: [{ name: "A", value: "1" }] },
];

/** Plays all of it; each part is a step of its own, whose failure does not stop the others. */
export async function playStory(
  client: ForeignClient,
  { kind, steps, label }: { readonly kind: ForeignKind; readonly steps: Steps; label: string },
): Promise<void> {
  const step = async (name: string, work: () => Promise<void>) =>
    steps.run(`${label}: ${name}`, work);
  let sandbox: { readonly sandbox_id: string } | undefined;
  await step("lists the tools", async () => {
    const listed = (await client.tools()).map(({ name }) => name);
    assert.deepEqual(listed.toSorted(), manifest.tools.map(({ name }) => name).toSorted());
  });
  await step("creates a sandbox", async () => {
    const { isError, text } = await client.call("create_sandbox", {});
    assert.equal(isError, false, text);
    sandbox = { sandbox_id: /sandbox_id"?: ?"?([a-z0-9]+)/.exec(text)?.[1] ?? "" };
  });
  if (sandbox === undefined) return;
  const own = sandbox;
  await step("runs a command with progress", () => runWithProgress(client, own, kind));
  await step("gives a long command up", () => cancelLong(client, own, kind));
  await step("reads a picture", () => readPicture(client, own));
  await step("lists and reads resources", () => readResources(client, own));
  await step("is told what is wrong with an argument", () => sendMalformed(client, own));
  await step("gets a usable result of every tool", () => callEveryTool(client, own));
  await step("kills the sandbox", async () => {
    assert.match((await client.call("kill_sandbox", own)).text, /killed/);
    const gone = await outcomeOf(client.call("run_process", { ...own, cmd: "true" }));
    assert.match(gone, /^(error )?not_found: /);
  });
}

async function runWithProgress(
  client: ForeignClient,
  sandbox: object,
  kind: ForeignKind,
): Promise<void> {
  const cmd = "echo one; sleep 1.5; echo two; sleep 1.5; exit 3";
  const { isError, text, progress } = await client.call("run_process", { ...sandbox, cmd });
  assert.equal(isError, false, text);
  assert.match(text, /^exit_code: 3 [^]*--- stdout\none\ntwo\n--- end/);
  if (!kind.hasProgress) return;
  assert.match(progress[0] ?? "", /^started pid \d+$/);
  assert.match(progress.join("\n"), /^output: one$[^]*two$/m);
}

/** A process that would run for ten minutes, and what is left of it when its call is given up. */
async function cancelLong(
  client: ForeignClient,
  sandbox: object,
  kind: ForeignKind,
): Promise<void> {
  const list = async () => (await client.call("list_processes", sandbox)).text;
  const long = client.start("run_process", { ...sandbox, cmd: "exec sleep 600" });
  // It is looked at below; until then a rejection has nobody else.
  const ended = long.reply.then(
    (reply) => (reply === undefined ? "cancelled" : reply.text),
    (error: unknown) => `error ${String(error)}`,
  );
  await until(async () => /p_\d+/.test(await list()), "the process is not listed");
  long.cancel();
  assert.equal(await ended, "cancelled");
  if (!kind.tellsCancel) {
    const [id = ""] = /p_\d+/.exec(await list()) ?? [];
    if (id !== "") await client.call("send_signal", { ...sandbox, process_id: id });
  }
  await until(async () => !/p_\d+/.test(await list()), "the process was not ended");
}

async function readPicture(client: ForeignClient, sandbox: object): Promise<void> {
  const file = { path: "pixel.png", content: PIXEL, encoding: "base64" };
  await client.call("write_file", { ...sandbox, ...file });
  const { text, images } = await client.call("read_file", { ...sandbox, path: file.path });
  assert.match(text, /image\/png \| 1 x 1 pixels/);
  assert.deepEqual(images, [{ mimeType: "image/png", data: PIXEL }]);
}

async function readResources(
  client: ForeignClient,
  sandbox: { readonly sandbox_id: string },
): Promise<void> {
  const uri = `sandbox:///${sandbox.sandbox_id}/log`;
  assert.ok((await client.resources()).includes(uri), `${uri} is not listed`);
  assert.match(await client.read(uri), /^one$/m);
}

/** The reply, or the error that the client makes of it: both are seen by a model. */
async function outcomeOf(calling: Promise<ForeignReply>): Promise<string> {
  return calling.then(
    ({ isError, text }) => (isError ? `error ${text}` : text),
    (error: unknown) => `error ${String(error)}`,
  );
}

async function sendMalformed(client: ForeignClient, sandbox: object): Promise<void> {
  for (const { input, names } of MALFORMED) {
    const outcome = await outcomeOf(client.call("run_process", { ...sandbox, ...input }));
    assert.match(outcome, /^error /, JSON.stringify(input));
    assert.match(outcome, names);
  }
  for (const input of TOLERATED) {
    const wanted = { ...sandbox, cmd: "echo fine", ...input };
    assert.match(await outcomeOf(client.call("run_process", wanted)), /^exit_code: 0 [^]*\nfine\n/);
  }
  const unknown = await outcomeOf(client.call("no_such_tool", {}));
  assert.match(unknown, /^error /);
}

/** Each result has a text and nothing but texts and pictures; a formatter's fault is an error. */
async function callEveryTool(
  client: ForeignClient,
  sandbox: { readonly sandbox_id: string },
): Promise<void> {
  const names = new Set((await client.tools()).map(({ name }) => name));
  for await (const { tool, reply } of callsOfEveryTool(client, sandbox)) {
    names.delete(tool);
    assert.equal(reply.isError, false, `${tool}: ${reply.text}`);
    assert.ok(reply.text.length > 0, `${tool}: no text`);
    assert.ok(
      reply.kinds.every((part) => part === "text" || part === "image"),
      `${tool}: ${reply.kinds.join(", ")}`,
    );
  }
  // It succeeds only in a sandbox of `code-interpreter`, in which `clients:code` plays it.
  names.delete("run_code");
  assert.deepEqual([...names], []);
}

async function until(isDone: () => Promise<boolean>, complaint: string): Promise<void> {
  const endMs = performance.now() + POLL_LIMIT_MS;
  while (!(await isDone())) {
    if (performance.now() > endMs) throw new Error(complaint);
    await delay(POLL_MS);
  }
}
