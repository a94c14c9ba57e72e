/**
 * One behaviour for every host: two client libraries and bare JSON-RPC lines, both protocol eras,
 * stdio and HTTP play the same story and see the same.
 */

import { afterAll, beforeAll, test, type ExpectStatic } from "vitest";
import type { Host } from "../support/hosts/host.ts";
import { RAW_HOSTS } from "../support/hosts/raw-host.ts";
import { V1_HOSTS } from "../support/hosts/v1-host.ts";
import { V2_HOSTS } from "../support/hosts/v2-host.ts";
import type { ToolReply } from "../support/mcp/tool-reply.ts";
import { startServe, type TestServe } from "../support/serve.ts";

let serve: TestServe;

beforeAll(async () => {
  serve = await startServe(["--toolsets", "all", "--pool", "0"]);
});
afterAll(async () => serve[Symbol.asyncDispose]());

/** A host, and what its test may claim: several stories are played at once. */
interface Stage {
  readonly host: Host;
  readonly expect: ExpectStatic;
}

async function codeOf(asked: Promise<unknown>): Promise<unknown> {
  const error: unknown = await asked.then(
    () => "no error",
    (refusal: unknown) => refusal,
  );
  return typeof error === "object" && error !== null && "code" in error ? error.code : error;
}

function settled(text: string, id: string): string {
  return text
    .replaceAll(id, "<id>")
    .replaceAll(/\d+(\.\d+)?m?s\b/g, "<time>")
    .replaceAll(/\bp_\d+/g, "<process>");
}

/** A process that goes on once its host has heard of it, with all that the host hears. */
async function watchProgress(host: Host, sandbox: object) {
  const heard: { progress: number; message?: string | undefined }[] = [];
  const answered: Promise<ToolReply>[] = [];
  const onProgress = (progress: (typeof heard)[number]) => {
    heard.push(progress);
    if (progress.message !== "output: one") return;
    answered.push(host.call("write_file", { ...sandbox, path: "heard", content: "" }));
  };
  const cmd = "echo one; until [ -e heard ]; do sleep 0.05; done; echo two";
  const reply = await host.call("run_process", { ...sandbox, cmd }, { onProgress });
  const answers = await Promise.all(answered);
  const numbers = heard.map(({ progress }) => progress);
  const rises = numbers.every((number, index) => index === 0 || number > (numbers[index - 1] ?? 0));
  return {
    ended: reply.text.startsWith("exit_code: 0"),
    first: heard[0]?.message?.replace(/\d+/, "<pid>"),
    answered: answers.map(({ isError }) => isError),
    rises,
  };
}

/** A call that its host gives up; what is left of its process. */
async function cancelCall({ host, expect }: Stage, sandbox: object) {
  const controller = new AbortController();
  const call = { ...sandbox, cmd: "sleep", args: ["600"] };
  const onProgress = () => controller.abort();
  const calling = host.call("run_process", call, { onProgress, signal: controller.signal });
  const outcome = await calling.then(
    () => "a reply",
    () => "given up",
  );
  const left = async () => (await host.call("list_processes", sandbox)).fields["processes"];
  await expect.poll(left).toEqual([]);
  return outcome;
}

/** Changes of the log that a host hears while it follows it, and afterwards. */
async function followLog({ host, expect }: Stage, sandbox: object, uri: string) {
  const updates: string[] = [];
  const following = await host.follow(uri, (changed) => updates.push(changed));
  await host.call("run_process", { ...sandbox, cmd: "echo news" });
  await expect.poll(() => updates.length).toBeGreaterThan(0);
  await following[Symbol.asyncDispose]();
  const before = updates.length;
  await host.call("run_process", { ...sandbox, cmd: "echo more" });
  await host.listTools();
  return { heard: [...new Set(updates)], afterwards: updates.length - before };
}

async function play(stage: Stage) {
  const { host } = stage;
  const tools = await host.listTools();
  const { fields } = await host.call("create_sandbox", {});
  const id = String(fields["sandbox_id"]);
  const sandbox = { sandbox_id: id };
  const uri = `sandbox:///${id}/log`;
  const ran = await host.call("run_process", { ...sandbox, cmd: "echo out; exit 3" });
  const read = await host.call("read_file", { ...sandbox, path: "absent" });
  const record = await host.call("stat_path", { ...sandbox, path: "/etc" });
  const bad = await host.call("run_process", { ...sandbox, cmd: "", wait_seconds: 99 });
  const story = {
    tools: tools.length,
    hints: tools.every(({ annotations }) => Object.keys(annotations ?? {}).length === 4),
    ran: [ran.isError, settled(ran.text, id)],
    read: [read.isError, read.text.split(":")[0]],
    record: [record.fields["type"], record.text.includes("type: directory")],
    bad: [bad.isError, /cmd[^]*wait_seconds|wait_seconds[^]*cmd/.test(bad.text)],
    unknownTool: await codeOf(host.call("no_such_tool", {})),
    unknownResource: await codeOf(host.readResource("sandbox:///i0/log")),
    progress: await watchProgress(host, sandbox),
    cancelled: await cancelCall(stage, sandbox),
    listed: (await host.listResources()).includes(uri),
    log: (await host.readResource(uri)).includes("\nout\n"),
    completed: await host.completeSandboxId(id.slice(0, -1)),
    followed: await followLog(stage, sandbox, uri),
    killed: (await host.call("kill_sandbox", sandbox)).fields["outcome"],
    gone: (await host.call("run_process", { ...sandbox, cmd: "true" })).text,
    kept: (await host.readResource(uri)).includes("\nmore\n"),
  };
  return JSON.parse(JSON.stringify(story).replaceAll(id, "<id>"));
}

test.concurrent.for([...V1_HOSTS, ...V2_HOSTS, ...RAW_HOSTS])(
  "$name: the same behaviour",
  async (kind, { expect }) => {
    await using host = await kind.start(serve);
    expect(await play({ host, expect })).toEqual({
      tools: 35,
      hints: true,
      ran: [
        false,
        "exit_code: 3 | duration: <time> | process_id: <process> | stdout 4 B, stderr 0 B | " +
          "sandbox expires in <time>\n--- stdout\nout\n--- end",
      ],
      read: [true, "not_found"],
      record: ["directory", true],
      bad: [true, true],
      unknownTool: -32_602,
      unknownResource: -32_602,
      progress: { ended: true, first: "started pid <pid>", answered: [false], rises: true },
      cancelled: "given up",
      listed: true,
      log: true,
      completed: ["<id>"],
      followed: { heard: ["sandbox:///<id>/log"], afterwards: 0 },
      killed: "killed",
      gone:
        "not_found: sandbox <id> does not exist (killed). Call " +
        "list_sandboxes to see which live. Call create_sandbox for a new one.",
      kept: true,
    });
  },
);
