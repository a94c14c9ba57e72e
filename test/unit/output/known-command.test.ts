/** A process whose pid another one has now is told by its command, however long that is. */

import { expect, test } from "vitest";
import type { Sandbox } from "../../../src/client/envd.ts";
import { Capture } from "../../../src/output/capture.ts";
import { isReplaced } from "../../../src/output/follow-process.ts";
import { ProcessOutput } from "../../../src/output/process-output.ts";

const PID = 2;
const LONG = `sh -c ${"x".repeat(99_000)}`;

/** A process of this command, in a sandbox that lists another one for its pid. */
function makeCapture(command: string, listed: string): Capture {
  const process = { list: async () => [{ pid: PID, cmd: listed }] };
  return new Capture({
    command,
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what it is asked for here
    sandbox: { id: "i1", process } as unknown as Sandbox,
    pid: PID,
    startedAtMs: 0,
    isAttached: false,
    output: new ProcessOutput(undefined),
  });
}

test.for([
  { name: "a short command", command: "sh -c true", listed: "sh -c true", expected: false },
  {
    name: "one behind a wrapper",
    command: "sh -c true",
    listed: "/bin/a sh -c true",
    expected: false,
  },
  { name: "one without arguments", command: "sh -c true", listed: "sh", expected: false },
  { name: "none", command: "sh -c true", listed: "", expected: false },
  { name: "another one", command: "sh -c true", listed: "sleep 9", expected: true },
  { name: "a long command", command: LONG, listed: LONG, expected: false },
  { name: "a long one behind a wrapper", command: LONG, listed: `/bin/a ${LONG}`, expected: false },
  { name: "a long one cut short", command: LONG, listed: LONG.slice(0, 500), expected: false },
  { name: "a long one cut late", command: LONG, listed: LONG.slice(0, 80_000), expected: false },
  { name: "a short one for a long one", command: LONG, listed: "sleep 9", expected: true },
  { name: "another long one", command: LONG, listed: LONG.replace("x", "y"), expected: true },
])("listed as $name: replaced $expected", async ({ command, listed, expected }) => {
  const { signal } = new AbortController();
  expect(await isReplaced(makeCapture(command, listed), signal)).toBe(expected);
});

test("the begin of a long command is kept alone", () => {
  const kept = makeCapture(LONG, "").command;
  expect({ begin: kept?.begin.length, characters: kept?.characters }).toEqual({
    begin: 65_536,
    characters: LONG.length,
  });
});
