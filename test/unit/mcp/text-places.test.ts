/** The places of a string in a text, whatever repeats in either. */

import { expect, test } from "vitest";
import { replaceText } from "../../../src/mcp/files/replace-text.ts";
import { placesOf } from "../../../src/mcp/files/text-places.ts";

/** As the platform finds them, each so far behind the one before it. */
function expectedPlaces(text: string, wanted: string, distance: number): number[] {
  const places: number[] = [];
  for (let at = text.indexOf(wanted); at !== -1; at = text.indexOf(wanted, at + distance)) {
    places.push(at);
  }
  return places;
}

function words(letters: string, length: number): string[] {
  if (length === 0) return [""];
  const all = letters.split("");
  return words(letters, length - 1).flatMap((word) => all.map((letter) => word + letter));
}

test("they are those of the platform, with and without overlaps", () => {
  const texts = [...words("ab", 9), "", "ü\u{1f600}ü\u{1f600}\ud83d"];
  const wanted = [1, 2, 3, 4].flatMap((length) => words("ab", length));
  for (const one of [...wanted, "\u{1f600}", "\ud83d", "ü"]) {
    for (const text of texts) {
      expect(placesOf(text, one)).toEqual(expectedPlaces(text, one, one.length));
      expect(placesOf(text, one, { overlap: true })).toEqual(expectedPlaces(text, one, 1));
    }
  }
});

test.for([
  { name: "in a plain file", end: "" },
  { name: "in a file with CRLF", end: "\r\n" },
])("a long string that nearly occurs everywhere is looked for in linear time, $name", ({ end }) => {
  const before = `${"a".repeat(300_000)}${end}`;
  const edit = { old_string: `ab${"a".repeat(30_000)}`, new_string: "", replace_all: true };
  const start = process.threadCpuUsage();
  expect(replaceText(before, edit).count).toBe(0);
  expect(process.threadCpuUsage(start).user / 1_000).toBeLessThan(500);
});
