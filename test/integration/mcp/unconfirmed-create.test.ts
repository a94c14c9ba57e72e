/** A create whose service does not know what was asked for: the reply says what is not confirmed. */

import { expect, test } from "vitest";
import { SANDBOX_DETAIL } from "../../support/control/sandbox-detail.ts";
import { startForeignHost } from "../../support/mcp/foreign-host.ts";
import { startMcpWorld } from "../../support/mcp/mcp-sandbox.ts";
import { answerJson } from "../../support/network/recorder.ts";

const RULES = { allow_out: ["192.0.2.1"], deny_out: ["0.0.0.0/0"] };
const HELD = { allowOut: ["192.0.2.1"], denyOut: ["0.0.0.0/0"] };

async function noteOf(input: object, answer: object): Promise<string> {
  const body = { ...SANDBOX_DETAIL, sandboxID: "i2", ...answer };
  await using remote = await startForeignHost((_, response) => {
    answerJson(response, 200, { body });
  });
  const { fields } = await remote.call("create_sandbox", { sandbox_id: undefined, ...input });
  return String(fields["note"]);
}

test.for([
  { input: { public_traffic: false }, answer: {}, note: /its ports need a token: take them for/ },
  {
    input: { public_traffic: false },
    answer: { network: { allowPublicTraffic: true }, trafficAccessToken: null },
    note: /its ports need a token: take them for/,
  },
  { input: RULES, answer: {}, note: /does not confirm allow_out and deny_out: try them/ },
  { input: RULES, answer: { network: { denyOut: HELD.denyOut } }, note: /confirm allow_out and/ },
])("a create with $input is not confirmed by $answer", async ({ input, answer, note }) => {
  expect(await noteOf(input, answer)).toMatch(note);
});

test.for([
  { input: { public_traffic: false }, answer: { trafficAccessToken: "a1" } },
  { input: { public_traffic: false }, answer: { network: { allowPublicTraffic: false } } },
  { input: RULES, answer: { network: HELD } },
  { input: { allow_out: [] }, answer: {} },
])("a create with $input is confirmed by $answer", async ({ input, answer }) => {
  expect(await noteOf(input, answer)).toBe("undefined");
});

test.for([{ public_traffic: false }, { deny_out: ["192.0.2.0/24"] }])(
  "our service confirms %o",
  async (input) => {
    await using world = await startMcpWorld();
    const { fields, isError } = await world.call("create_sandbox", input);
    expect([isError, String(fields["note"])]).toEqual([
      false,
      expect.not.stringContaining("not confirm"),
    ]);
  },
);
