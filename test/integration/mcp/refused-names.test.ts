/** Names that a service would take, and that would do harm. */

import { expect, test } from "vitest";
import { startForeignHost } from "../../support/mcp/foreign-host.ts";
import { answerJson } from "../../support/network/recorder.ts";

const TAKEN = { templateID: "t1", public: false };
const OLDER = { snapshotID: "team/app:default", names: ["team/app"] };

test.for([
  { kind: "of a template", name: "app:v1", isTaken: true, older: [], isMade: false },
  { kind: "of a snapshot", name: "app:v1", isTaken: true, older: [OLDER], isMade: true },
  { kind: "of nothing", name: "app", isTaken: false, older: [], isMade: true },
  { kind: "that is taken, of a service without lists", name: "app", isTaken: true, isMade: true },
])("a name $kind for a snapshot: $isMade", async ({ name, isTaken, older, isMade }) => {
  let made = 0;
  await using remote = await startForeignHost(({ url, method }, response) => {
    const missing = { body: { code: 404, message: "no such path" } };
    if (url === "/templates/aliases/app" && isTaken) {
      return answerJson(response, 200, { body: TAKEN });
    }
    if (url?.startsWith("/snapshots?") && older !== undefined) {
      return answerJson(response, 200, { body: older });
    }
    if (method !== "POST") return answerJson(response, 404, missing);
    made += 1;
    return answerJson(response, 201, { body: OLDER });
  });
  const { text, isError } = await remote.call("snapshot", { name });
  expect([isError, made]).toEqual([!isMade, isMade ? 1 : 0]);
  if (isMade) return;
  expect(text).toBe(
    "invalid_argument: app is a template. Choose another name: its versions are made by build_template.",
  );
});
