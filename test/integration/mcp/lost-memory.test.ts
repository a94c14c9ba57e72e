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

const ON_DISK = {
  ...SANDBOX_DETAIL,
  state: "paused",
  pauseMode: "full",
  pauseReason: "request",
  pausedMemory: "disk",
};
const NEXT = "connect_sandbox with keep_memory=false starts new processes on its files";

test.for([
  {
    what: "memory on disk that goes on",
    more: {},
    expected: "connect_sandbox resumes it; its programs wait on disk and go on then",
  },
  {
    what: "memory on disk that does not come back",
    more: { pausedMemoryFault: "memory cannot be\nrestored: other" },
    expected: `memory cannot be\\nrestored: other; ${NEXT}`,
  },
  {
    what: "a fault that is no text",
    more: { pausedMemoryFault: 5 },
    expected: "connect_sandbox resumes it; its programs wait on disk and go on then",
  },
  {
    what: "a daemon that did not answer",
    more: { pausedMemory: "process", envdUnresponsiveAtPause: true },
    expected: `its daemon did not answer then; ${NEXT}`,
  },
])("get_sandbox tells of $what", async ({ more, expected }) => {
  const detail = { ...ON_DISK, ...more };
  await using remote = await startForeignHost(
    (_, response) => answerJson(response, 404, { body: {} }),
    undefined,
    detail,
  );
  const { fields } = await remote.call("get_sandbox", {});
  expect(fields["paused_because"]).toBe(`a call paused it; ${expected}`);
});
