/** Lists that a service answers in part, or with more than was asked for: a reply hides none of it. */

import { expect, test } from "vitest";
import { SANDBOX_DETAIL } from "../../support/control/sandbox-detail.ts";
import { startForeignHost } from "../../support/mcp/foreign-host.ts";
import { answerJson } from "../../support/network/recorder.ts";

const BUILD = { buildID: "b", createdAt: "", updatedAt: "", cpuCount: 1, memoryMB: 128 };
const TEMPLATE = {
  templateID: "t1",
  public: false,
  aliases: [],
  names: ["n"],
  createdAt: "",
  updatedAt: "",
  lastSpawnedAt: null,
  spawnCount: 0,
};

async function fieldsOf(tool: string, input: object, body: unknown) {
  await using remote = await startForeignHost((_, response) => {
    answerJson(response, 200, { body });
  });
  return (await remote.call(tool, input)).fields;
}

test.for([
  { count: 3, note: "2 older builds are not listed" },
  { count: 1, note: undefined },
])("a service that does not page has $count builds", async ({ count, note }) => {
  const builds = Array.from({ length: count }, () => BUILD);
  const input = { sandbox_id: undefined, template: "t1", limit: 1 };
  const fields = await fieldsOf("get_template", input, { ...TEMPLATE, builds });
  expect([fields["builds"], fields["note"]]).toEqual([[expect.anything()], note]);
});

test.for([
  { body: [{ error: { code: 500, message: "no" } }], copies: [{ error: "no" }], hasExpiry: false },
  {
    body: [{ sandbox: { ...SANDBOX_DETAIL, sandboxID: "i2" } }],
    copies: [{ sandbox_id: "i2" }],
    hasExpiry: true,
  },
])("an expiry is that of a copy: $hasExpiry", async ({ body, copies, hasExpiry }) => {
  const fields = await fieldsOf("fork_sandbox", {}, body);
  expect([fields["copies"], "expires_at" in fields]).toEqual([copies, hasExpiry]);
});

test.for([
  { cmd: "x".repeat(299) + "…", note: undefined },
  { cmd: "x".repeat(301), note: expect.stringMatching(/^Long commands are cut\./) },
])("a command is called cut only if it is: $note", async ({ cmd, note }) => {
  const processes = [{ pid: 7, config: { cmd, args: [] } }];
  const fields = await fieldsOf("list_processes", {}, { processes });
  expect(fields["note"]).toEqual(note);
});
