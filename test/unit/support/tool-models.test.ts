/** The models of random calls of tools see what they are for. */

import { expect, test } from "vitest";
import { ReadOutput } from "../../support/faults/counting-output.ts";
import { FileModel } from "../../support/faults/file-model.ts";

const MARK = "--- [… its stream was broken here …]";

function faultOf(pages: readonly string[], isEnded = true): string | undefined {
  const output = new ReadOutput();
  for (const page of pages) output.add(`exit_code: 7\n${page}--- end`);
  return output.findFault({ tag: "t", count: 3, isEnded });
}

const ERRORS = "--- stderr\net-1;\net-2;\net-3;\n";

test.for([
  { pages: [`--- stdout\not-1;\not-2;\not-3;\n${ERRORS}`] },
  { pages: ["--- stdout\not-1;\not\n", `--- stdout\n-2;\not-3;\n${ERRORS}`] },
  { pages: [`--- stdout\not-1;\n${MARK}\not-3;\n--- stderr\net-2;\net-3;\n`] },
])("what a program wrote, in pages or with a mark, %j", ({ pages }) => {
  expect(faultOf(pages)).toBeUndefined();
});

test.for([
  ["a line is missing", [`--- stdout\not-1;\not-3;\n${ERRORS}`]],
  ["the end is missing", [`--- stdout\not-1;\not-2;\n${ERRORS}`]],
  ["a line is there twice", ["--- stdout\not-1;\n", `--- stdout\not-1;\not-2;\not-3;\n${ERRORS}`]],
  ["a line is another one's", [`--- stdout\not-1;\net-2;\not-3;\n${ERRORS}`]],
  ["a mark is cut", [`--- stdout\not-1;\not-2;\not-3;\n[… its\n${ERRORS}`]],
] as const)("%s", ([, pages]) => {
  expect(faultOf(pages)).toBeDefined();
});

test("a change that was not answered may come about or not, also after an answered one", () => {
  const files = new FileModel();
  files.change("a", ["one"], true);
  files.change("a", ["two"], false);
  expect(files.at("a")).toEqual(new Set(["one", "two"]));
  files.change("a", ["three"], true);
  expect(files.at("a")).toEqual(new Set(["three", "two"]));
  expect(files.at("b")).toEqual(new Set([undefined]));
});
