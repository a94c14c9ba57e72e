import { expect, test } from "vitest";
import { memoryNote } from "../../../src/commands/memory-note.ts";

const MOVES = { pauseToDisk: { afterSeconds: 60, isAtExit: true }, encryptsSnapshots: false };
const NONE = { pauseToDisk: undefined, encryptsSnapshots: false };

const NOTHING = /^undefined$/;

test.for([
  { given: MOVES, level: "userns-container", runsc: undefined, note: /^--pause-to-disk: not used/ },
  {
    given: { ...NONE, encryptsSnapshots: true },
    level: "userns-container",
    runsc: undefined,
    note: /^--encrypt-snapshots: not used without runsc/,
  },
  { given: NONE, level: "userns-container", runsc: undefined, note: NOTHING },
  { given: MOVES, level: "userns-container", runsc: "/usr/bin/runsc", note: NOTHING },
  { given: MOVES, level: "gvisor", runsc: undefined, note: NOTHING },
] as const)("%o", ({ given, level, runsc, note }) => {
  expect(String(memoryNote(given, { level }, () => runsc))).toMatch(note);
});
