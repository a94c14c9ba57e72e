import { expect, test } from "vitest";
import { memoryNote } from "../../../src/commands/service/setting-notes.ts";

const MOVES = { pauseToDisk: { afterSeconds: 60, isAtExit: true }, encryptsSnapshots: false };
const NONE = { pauseToDisk: undefined, encryptsSnapshots: false };

const NOTHING = /^undefined$/;

test.for([
  { given: MOVES, level: "userns-container", lack: "runsc", note: /^--pause-to-disk: not used/ },
  {
    given: { ...NONE, encryptsSnapshots: true },
    level: "userns-container",
    lack: "runsc",
    note: /^--encrypt-snapshots: not used without runsc/,
  },
  {
    given: MOVES,
    level: "userns-container",
    lack: "root",
    note: /^--pause-to-disk: not used without root, memory is never on disk$/,
  },
  { given: NONE, level: "userns-container", lack: "runsc", note: NOTHING },
  { given: MOVES, level: "userns-container", lack: undefined, note: NOTHING },
  { given: MOVES, level: "gvisor", lack: "runsc", note: NOTHING },
] as const)("%o", ({ given, level, lack, note }) => {
  expect(String(memoryNote(given, { level }, () => lack))).toMatch(note);
});
