/** A paused sandbox whose memory does not come back, as after an update of its service. */

import { expect, test } from "vitest";
import { SANDBOX_DETAIL } from "../../support/control/sandbox-detail.ts";
import { startForeignHost } from "../../support/mcp/foreign-host.ts";
import { answerJson } from "../../support/network/recorder.ts";

const LOST = {
  code: 409,
  message: "memory cannot be restored: this service is another version",
  error_code: "sandbox_memory_not_restorable",
};

test("connect_sandbox refuses it at once with a next step that resumes it", async () => {
  const bodies: unknown[] = [];
  const paused: typeof SANDBOX_DETAIL = { ...SANDBOX_DETAIL, state: "paused" };
  await using remote = await startForeignHost(
    ({ body }, response) => {
      const request: unknown = JSON.parse(body);
      bodies.push(request);
      const isOfFiles = Object.entries(request ?? {}).some(([name]) => name === "memory");
      if (isOfFiles) answerJson(response, 201, { body: SANDBOX_DETAIL });
      else answerJson(response, 409, { body: LOST });
    },
    undefined,
    paused,
  );
  const { text } = await remote.call("connect_sandbox", {});
  expect(text).toMatch(/^failed_precondition: .*this service is another version/);
  expect(text).toContain("Call connect_sandbox with keep_memory=false");
  const { fields } = await remote.call("connect_sandbox", { keep_memory: false });
  expect(fields).toMatchObject({ was_resumed: true });
  expect(bodies).toEqual([{ timeout: 300 }, { timeout: 300, memory: false }]);
});
