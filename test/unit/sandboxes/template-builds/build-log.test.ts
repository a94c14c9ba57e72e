/** What steps write becomes lines of a bounded length. */

import { expect, test } from "vitest";
import { createSystemClock } from "../../../../src/common/clock.ts";
import { createBuildLog } from "../../../../src/sandboxes/template-builds/build-log.ts";

function openLog() {
  const messages: string[] = [];
  const store = {
    buildLines: {
      append: (_id: string, lines: readonly { readonly message: string }[]) =>
        void messages.push(...lines.map(({ message }) => message)),
      read: () => [],
      remove: () => undefined,
      buildIds: () => [],
    },
  };
  return { messages, log: createBuildLog({ store, clock: createSystemClock() }, "build") };
}

test("a line that does not end is held only as far as it is shown", () => {
  const { messages, log } = openLog();
  const sink = log.open("1");
  const piece = Buffer.alloc(2_000, "x");
  // Together more than the longest text that there can be.
  for (let count = 0; count < 270_000; count += 1) sink.write("stdout", piece);
  sink.write("stdout", Buffer.from("\nnext\n"));
  sink.end();
  expect(messages).toEqual(["x".repeat(2_000), "next"]);
});
