/** What doctor says of a kernel of its own, by the lines that a trial left. */

import { expect, test } from "vitest";
import { describeAbilities } from "../../../src/engine/gvisor/abilities.ts";

const BOOT_ID = "0123abcd-89ef-4000-8000-0123456789ab";
const ABLE = [
  "kernel 4.19.0-gvisor",
  `boot-id ${BOOT_ID}`,
  "set-id effective",
  "attributes kept",
  "proc bounded",
];

test("a kernel that lacks nothing is named", () => {
  const text = [...ABLE, "environment closed", ""].join("\n");
  expect(describeAbilities(text, BOOT_ID)).toEqual({
    detail: "kernel 4.19.0-gvisor inside",
    remedy: undefined,
  });
});

test.for([
  { line: "set-id ignored", says: /sudo gives no rights/ },
  { line: "environment open", says: /can read the environment of root's programs/ },
  { line: "attributes refused", says: /uploads lose their metadata/ },
  { line: "boot-id other", says: /the boot id is the kernel's own/ },
])("$line is said, with the way to a newer runtime", ({ line, says }) => {
  const [word = ""] = line.split(" ");
  const lines = [...ABLE, "environment closed"].filter((other) => !other.startsWith(word));
  const { detail, remedy } = describeAbilities([...lines, line].join("\n"), BOOT_ID);
  expect(detail).toMatch(says);
  expect(detail.split("; ")).toHaveLength(2);
  expect(remedy).toMatch(/newer runsc: https:/);
});

test("a /proc that keeps more is said, and no newer runtime is named", () => {
  const lines = [...ABLE.slice(0, -1), "proc unbounded", "environment closed"];
  expect(describeAbilities(lines.join("\n"), BOOT_ID)).toEqual({
    detail:
      "kernel 4.19.0-gvisor inside; " +
      "programs that read /proc take up to 160 MB of the sandbox's memory",
    remedy: undefined,
  });
});

test("what the trial did not write counts as missing, and its text is escaped", () => {
  const { detail } = describeAbilities("kernel \u001B[2J", BOOT_ID);
  expect(detail.split("; ")).toHaveLength(6);
  expect(detail).not.toContain("\u001B");
});
