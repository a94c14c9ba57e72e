/** What people see of a build or a pull, on a terminal and elsewhere. */

import { expect, test } from "vitest";
import { createPullProgress } from "../../../src/commands/program/pull-progress.ts";
import { showCommandOn, showProgressOn } from "../../../src/commands/program/show-progress.ts";

const PROGRESS = { note: () => undefined, share: () => 0.5, describe: () => "about 30 s left" };

test.for([
  {
    name: "plain lines where there is no terminal",
    output: {},
    written: [
      "sandbox-mcp: building the base template, about 30 s left\n",
      "sandbox-mcp: it is built\n",
    ],
  },
  {
    name: "a bar on a terminal, cut to its width",
    output: { isTTY: true, columns: 40 },
    written: [
      "\r\u001b[2K[############------------] building the",
      "\r\u001b[2K",
      "sandbox-mcp: it is built\n",
    ],
  },
])("$name", ({ output, written }) => {
  const seen: string[] = [];
  const show = showProgressOn(
    { ...output, write: (text) => seen.push(text) },
    "building the base template",
  );
  show(PROGRESS)("it is built");
  expect(seen).toEqual(written);
});

/** What a pull reports, in its order: lines, and bytes of all of them. */
const PULL: readonly (string | readonly [number, number | undefined])[] = [
  [0, 80_000_000],
  "Copying blob sha256:00ff",
  [40_000_000, 80_000_000],
  "unpacking layer 1 of 2",
  [80_000_000, 80_000_000],
  "unpacking layer 2 of 2",
  "writing the files",
];

test("of a pull the share grows from the first byte to the last file", () => {
  const progress = createPullProgress();
  const seen = PULL.map((part) => {
    if (typeof part === "string") progress.note(part);
    else progress.fetched(...part);
    return `${progress.share().toFixed(2)} ${progress.describe()}`;
  });
  expect(seen).toEqual([
    "0.00 0 of 80 MB fetched",
    "0.00 0 of 80 MB fetched",
    "0.30 40 of 80 MB fetched",
    "0.60 unpacking layer 1 of 2",
    "0.60 unpacking layer 1 of 2",
    "0.75 unpacking layer 2 of 2",
    "0.90 writing the files",
  ]);
});

test("an index has no size: what is there is shown", () => {
  const progress = createPullProgress();
  progress.fetched(12_400_000, undefined);
  expect([progress.share(), progress.describe()]).toEqual([0, "12 MB fetched"]);
});

test.for([
  { output: {}, written: ["unpacking layer 1 of 1\n"] },
  {
    output: { isTTY: true, columns: 64 },
    written: [
      "\r\u001b[2K[------------------------] pulling debian:12, asking the regist",
      "\r\u001b[2K",
    ],
  },
])("a command on $output is shown until it ends, once", ({ output, written }) => {
  const seen: string[] = [];
  const place = { ...output, write: (text: string) => seen.push(text) };
  using shown = showCommandOn(place, "pulling debian:12", createPullProgress());
  shown.line("unpacking layer 1 of 1");
  shown[Symbol.dispose]();
  shown[Symbol.dispose]();
  expect(seen).toEqual(written);
});
