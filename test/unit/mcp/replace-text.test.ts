/** Edits whose line ends are not those of the file. */

import { expect, test } from "vitest";
import { replaceText } from "../../../src/mcp/files/replace-text.ts";

const WINDOWS = "one\r\ntwo\r\nthree\r\n";

test.for([
  { name: "a plain file", before: "a\nb\n", from: "a\nb", to: "c\nd\ne", after: "c\nd\ne\n" },
  {
    name: "a CRLF file",
    before: WINDOWS,
    from: "one\ntwo",
    to: "1\n2",
    after: "1\r\n2\r\nthree\r\n",
  },
  {
    name: "one line of a CRLF file",
    before: WINDOWS,
    from: "two",
    to: "2\n2",
    after: "one\r\n2\r\n2\r\nthree\r\n",
  },
  { name: "a line end alone", before: WINDOWS, from: "one\n", to: "", after: "two\r\nthree\r\n" },
  {
    name: "CRLF to LF on purpose",
    before: WINDOWS,
    from: "one\r\n",
    to: "one\n",
    after: "one\ntwo\r\nthree\r\n",
  },
  {
    name: "CRLF asked of a plain file",
    before: "a\nb\n",
    from: "a\r\nb",
    to: "c\r\nd",
    after: "c\nd\n",
  },
  { name: "CRLF for a plain file", before: "a\nb\n", from: "b", to: "c\r\nd", after: "a\nc\nd\n" },
  { name: "CRLF for a file of one line", before: "a", from: "a", to: "b\r\nc", after: "b\r\nc" },
  {
    name: "a mixed file, its CRLF part",
    before: "a\nb\r\nc\n",
    from: "b\nc",
    to: "x\ny",
    after: "a\nx\r\ny\n",
  },
  {
    name: "a mixed file, one line",
    before: "a\nb\r\nc\n",
    from: "b",
    to: "x\ny",
    after: "a\nx\ny\r\nc\n",
  },
  { name: "a lone return", before: "a\rb\r\nc", from: "a\rb\n", to: "x\n", after: "x\r\nc" },
  { name: "a file of CR alone", before: "a\rb\rc\r", from: "a\nb", to: "x\ny", after: "x\ry\rc\r" },
  { name: "CRLF asked of CR", before: "a\rb\r", from: "a\r\nb", to: "x\r\ny", after: "x\ry\r" },
  { name: "one line of CR", before: "a\rb\r", from: "b", to: "x\ny", after: "a\rx\ry\r" },
  { name: "CR to LF on purpose", before: "a\rb\r", from: "a\r", to: "a\n", after: "a\nb\r" },
  { name: "the very end", before: "a\r\nb", from: "\nb", to: "\nc", after: "a\r\nc" },
])("$name is edited", ({ before, from, to, after }) => {
  const wish = { old_string: from, new_string: to, replace_all: false };
  expect(replaceText(before, wish)).toMatchObject({ count: 1, after });
});

test("in a file of CR alone the lines are those that a reader is shown", () => {
  const wish = { old_string: "b", new_string: "x\ny", replace_all: true };
  expect(replaceText("a\rb\rb", wish)).toEqual({
    count: 2,
    after: "a\rx\ry\rx\ry",
    lines: [2, 4],
    fact: "line ends kept: CR",
  });
  const missing = { ...wish, old_string: "z" };
  expect(replaceText("a\rb", missing)).toMatchObject({ count: 0, after: "a\rb" });
});

test("every occurrence is found whatever its line end, and its line is told", () => {
  const wish = { old_string: "a\nb", new_string: "c\nd\ne", replace_all: true };
  expect(replaceText("a\nb\r\na\r\nb\r\nx", wish)).toEqual({
    count: 2,
    after: "c\nd\ne\r\nc\r\nd\r\ne\r\nx",
    lines: [1, 4],
    fact: "line ends kept: CRLF",
  });
});

test("several occurrences are counted and left alone unless all are meant", () => {
  const wish = { old_string: "a\n", new_string: "b", replace_all: false };
  expect(replaceText("a\r\na\n", wish)).toMatchObject({ count: 2, after: "a\r\na\n" });
});

test.for([
  { name: "a plain file", before: "x\nx\nx\n", from: "x\nx", all: "Q\nx\n" },
  { name: "a CRLF file", before: "x\r\nx\r\nx\r\n", from: "x\nx", all: "Q\r\nx\r\n" },
  { name: "a file of CR alone", before: "x\rx\rx\r", from: "x\nx", all: "Q\rx\r" },
])("two occurrences that share characters are two, in $name", ({ before, from, all }) => {
  const edit = { old_string: from, new_string: "Q" };
  const single = replaceText(before, { ...edit, replace_all: false });
  expect([single.count, single.after]).toEqual([2, before]);
  const every = replaceText(before, { ...edit, replace_all: true });
  expect([every.count, every.after]).toEqual([1, all]);
});

test("a result that cannot be held is refused, for either kind of file", () => {
  const wish = { old_string: "a", new_string: "b".repeat(1_000_000), replace_all: true };
  for (const before of ["a".repeat(100), `\r\n${"a".repeat(100)}`]) {
    expect(() => replaceText(before, wish)).toThrow(
      /^the edited file would have 1\d{8} char|2\d{8}/,
    );
  }
});

test("a large file of short lines is edited in linear time", () => {
  const before = "a\r\n".repeat(200_000);
  const wish = { old_string: "a\n", new_string: "b\n", replace_all: true };
  expect(replaceText(before, wish).count).toBe(200_000);
});

test.for([
  { name: "a plain file", before: "a", from: "a" },
  { name: "line ends", before: "\n", from: "\n" },
  { name: "a CRLF file", before: "a\r\n", from: "a" },
  { name: "line ends of a CRLF file", before: "a\r\n", from: "\n" },
])("more occurrences than a reply is made of are refused: $name", ({ before, from }) => {
  const edit = { old_string: from, new_string: "b", replace_all: true };
  expect(replaceText(before.repeat(250_000), edit).count).toBe(250_000);
  expect(() => replaceText(before.repeat(250_001), edit)).toThrow("more than 250000 times");
});
