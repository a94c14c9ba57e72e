/** Pieces of output end between characters, and no byte is lost. */

import { afterEach, expect, test, vi } from "vitest";
import { createWholeCharacters } from "../../../src/envd/process/whole-characters.ts";

function setUp() {
  vi.useFakeTimers();
  const pieces: string[] = [];
  const characters = createWholeCharacters((bytes) => pieces.push(bytes.toString("latin1")));
  const add = (text: string) => characters.add(Buffer.from(text, "latin1"));
  return { pieces, add, flush: () => characters.flush() };
}

afterEach(() => {
  vi.useRealTimers();
});

test.for([1, 2, 3, 5, 7, 4_096])("a text that comes in pieces of %s bytes stays whole", (size) => {
  const { pieces, add, flush } = setUp();
  const text = Buffer.from("a\u{e9}\u{20ac}\u{1f642}".repeat(2_000)).toString("latin1");
  for (let at = 0; at < text.length; at += size) add(text.slice(at, at + size));
  flush();
  expect(pieces.join("") === text).toBe(true);
  const torn = pieces.filter((piece) =>
    Buffer.from(piece, "latin1").toString().includes("\u{fffd}"),
  );
  expect(torn).toHaveLength(0);
});

test("a begin whose rest does not come is given by itself, and what follows is whole again", () => {
  const { pieces, add } = setUp();
  add("a\u00e2\u0082");
  expect(pieces).toEqual(["a"]);
  vi.runAllTimers();
  expect(pieces).toEqual(["a", "\u00e2\u0082"]);
  add("\u00acb\u00c3");
  add("\u00a9");
  expect(pieces.slice(2)).toEqual(["\u00acb", "\u00c3\u00a9"]);
  vi.runAllTimers();
  expect(pieces).toHaveLength(4);
});

test("what came while the daemon stood still is read before a begin is given up", () => {
  const { pieces, add } = setUp();
  // The time is over in one turn of the loop, which reads after its timers.
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  add("\u00e2\u0082");
  vi.runAllTimers();
  add("\u00ac");
  expect(pieces).toEqual(["\u00e2\u0082\u00ac"]);
});

test("the end of the output takes what is left with it", () => {
  const { pieces, add, flush } = setUp();
  add("\u00f0\u009f\u0099");
  expect(pieces).toEqual([]);
  flush();
  flush();
  expect(pieces).toEqual(["\u00f0\u009f\u0099"]);
});

test("bytes that are no text do not wait", () => {
  const { pieces, add } = setUp();
  add("\u00ff\u0000a\u00c3");
  expect(pieces).toEqual(["\u00ff\u0000a\u00c3"]);
});
