/** Lists that a service answers in part, or with more than was asked for: a reply hides none of it. */

import { expect, test } from "vitest";
import { startForeignHost } from "../../support/foreign-host.ts";
import { answerJson } from "../../support/recorder.ts";

async function fieldsOf(tool: string, input: object, body: unknown) {
  await using remote = await startForeignHost((_, response) => {
    answerJson(response, 200, { body });
  });
  return (await remote.call(tool, input)).fields;
}

test.for([
  { cmd: "x".repeat(299) + "…", note: undefined },
  { cmd: "x".repeat(301), note: expect.stringMatching(/^Long commands are cut\./) },
])("a command is called cut only if it is: $note", async ({ cmd, note }) => {
  const processes = [{ pid: 7, config: { cmd, args: [] } }];
  const fields = await fieldsOf("list_processes", {}, { processes });
  expect(fields["note"]).toEqual(note);
});
