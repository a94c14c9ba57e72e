import { expect, test } from "vitest";
import { showProgressOn } from "../../../src/commands/show-progress.ts";

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
  const show = showProgressOn({ ...output, write: (text) => seen.push(text) }, "the base template");
  show(PROGRESS)("it is built");
  expect(seen).toEqual(written);
});
