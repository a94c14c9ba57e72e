/** A change that was done is told as done: by a repeat of a call that broke off, and where a look after it fails. */

import { expect, test } from "vitest";
import { SANDBOX_DETAIL } from "../../support/control/sandbox-detail.ts";
import { startForeignHost, type ForeignAnswer } from "../../support/mcp/foreign-host.ts";
import { answerJson } from "../../support/network/recorder.ts";

type Step = (response: Parameters<ForeignAnswer>[1]) => void;

const breakOff: Step = (response) => void response.destroy();
const bare: Step = (response) => void response.writeHead(503).end("upstream reset");
const refuse =
  (status: number): Step =>
  (response) =>
    answerJson(response, status, { body: { code: status, message: "no" } });
const found =
  (status: number): Step =>
  (response) =>
    answerJson(response, status, { body: SANDBOX_DETAIL });

async function callWith(tool: string, steps: readonly Step[], input: object = {}) {
  const left = [...steps];
  const paused: typeof SANDBOX_DETAIL = { ...SANDBOX_DETAIL, state: "paused" };
  await using remote = await startForeignHost(
    ({ method }, response) => {
      const step = method === "GET" ? refuse(404) : (left.shift() ?? refuse(500));
      step(response);
    },
    undefined,
    tool === "pause_sandbox" ? paused : SANDBOX_DETAIL,
  );
  return (await remote.call(tool, input)).fields;
}

test.for([
  { steps: [found(200)], wasResumed: false },
  { steps: [found(201)], wasResumed: true },
  { steps: [refuse(503), found(200)], wasResumed: false },
  { steps: [breakOff, found(201)], wasResumed: true },
])("connect_sandbox tells what it did: $wasResumed", async ({ steps, wasResumed }) => {
  const fields = await callWith("connect_sandbox", steps);
  expect(fields).toMatchObject({ was_resumed: wasResumed });
  expect(fields).not.toHaveProperty("note");
});

test.for([
  { name: "a broken connection", steps: [breakOff, found(200)] },
  { name: "the reply of a proxy", steps: [bare, found(200)] },
  { name: "a state that changes", steps: [breakOff, refuse(409), found(200)] },
])("connect_sandbox does not say that the sandbox ran before $name", async ({ steps }) => {
  const fields = await callWith("connect_sandbox", steps);
  expect(fields).not.toHaveProperty("was_resumed");
  expect(fields["note"]).toMatch(/^it runs; whether it was paused before is not known/);
});

test.for([
  { tool: "kill_sandbox", refused: 404, outcome: "killed" },
  { tool: "pause_sandbox", refused: 409, outcome: "paused" },
  { tool: "delete_snapshot", refused: 404, outcome: "deleted" },
])("$tool that broke off is told as done: $outcome", async ({ tool, refused, outcome }) => {
  const input = tool === "delete_snapshot" ? { sandbox_id: undefined, snapshot_id: "t1" } : {};
  const fields = await callWith(tool, [breakOff, refuse(refused)], input);
  expect(fields["outcome"]).toBe(outcome);
});

test.for([
  { tool: "kill_sandbox", refused: 404, outcome: "already_gone" },
  { tool: "pause_sandbox", refused: 409, outcome: "already_paused" },
  { tool: "delete_snapshot", refused: 404, outcome: "already_gone" },
])("$tool of what was done before says so: $outcome", async ({ tool, refused, outcome }) => {
  const input = tool === "delete_snapshot" ? { sandbox_id: undefined, snapshot_id: "t1" } : {};
  const fields = await callWith(tool, [refuse(refused)], input);
  expect(fields["outcome"]).toBe(outcome);
});

test.for([
  { tool: "pause_sandbox", input: {}, isError: false, told: /^sandbox_id: i2\noutcome: paused\n/ },
  {
    tool: "set_timeout",
    input: { timeout_seconds: 60 },
    isError: true,
    told: /^unavailable: the time of the timeout is not known: .* It is set: get_sandbox returns/,
  },
])("$tool is done though the look after it fails", async ({ tool, input, isError, told }) => {
  await using remote = await startForeignHost(({ method }, response) => {
    if (method === "GET") refuse(503)(response);
    else response.writeHead(204).end();
  });
  const reply = await remote.call(tool, { sandbox_id: "i2", ...input });
  expect([reply.isError, reply.text]).toEqual([isError, expect.stringMatching(told)]);
});
