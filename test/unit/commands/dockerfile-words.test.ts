/** Words of a Dockerfile with quotes, escapes and variables, as `docker build` reads them. */

import { expect, test } from "vitest";
import { readDockerfile } from "../../../src/commands/template-build/dockerfile.ts";
import { expandVariables } from "../../../src/sandboxes/template-builds/expand.ts";

/** As in the table `shell/envVarTest` of BuildKit, of which these are lines. */
const ENVIRONMENT = { PWD: "/home", SHELL: "bash", NULL: "" };

test.for([
  ["he'll'o", "hello"],
  [String.raw`he\'llo`, "he'llo"],
  [String.raw`"abc\tdef"`, String.raw`abc\tdef`],
  ["$.", "$."],
  ["he$1x", "hex"],
  ["$999aaa", "aaa"],
  ["$@@@", "@@"],
  ["$$", ""],
  ["cost$", "cost$"],
  [String.raw`\${}aaa`, "${}aaa"],
  ["he${XXX:-$PWD}xx", "he/homexx"],
  ["he${XXX:-${YYY:-yyy}}xx", "heyyyxx"],
  ["he${PWD:+${XXX}}xx", "hexx"],
  ["he${PWD:+${PWD}:}xx", "he/home:xx"],
  ["he${XXX:-\\$PWD:}xx", "he$PWD:xx"],
  ["he${XXX:-\\${PWD}z}xx", "he${PWDz}xx"],
  ["${aaa:-bbb {foo}", "bbb {foo"],
  ["${aaa}}", "}"],
  ["${NULL:-'a b'\"$PWD\"}", "a b/home"],
  // What follows is no part of the name.
  ['"$PWD"s', "/homes"],
  ["$PWD's'", "/homes"],
  [String.raw`$PWD\s`, "/homes"],
  ["$PWD$1s", "/homes"],
] as const)("ENV %s is %j", ([word, value]) => {
  const { steps } = readDockerfile(`FROM a\nENV Z ${word}`, "Dockerfile");
  const [, given = ""] = steps.find(({ type }) => type === "ENV")?.args ?? [];
  expect(expandVariables(given, ENVIRONMENT)).toBe(value);
});

test.for([
  ["WORKDIR '/$A'/x", ["/$A/x"]],
  [String.raw`WORKDIR /a\ b/"$A"c`, ["/a b/1c"]],
  ["WORKDIR /${A:+${A}x}", ["/1x"]],
  ['USER "$A"', ["1"]],
  [String.raw`COPY a\*b "$A"c to`, ["a*b", "to/", "", "", "1c", "to/", "", ""]],
  ['COPY --chown="$A":${A} a b', ["a", "b", "1:1", ""]],
] as const)("%s has the words %j", ([line, words]) => {
  const { steps } = readDockerfile(`FROM a\nENV A=1\n${line}`, "Dockerfile");
  const given = steps.filter((step) => step.line === 3).flatMap(({ args }) => args);
  expect(given).toEqual(words);
});

test("a variable whose word does not end is a text for the service", () => {
  expect(expandVariables("${A:-x$B${C:+", { B: "b" })).toBe("${A:-xb${C:+");
});

test("words within words take no longer than their text", () => {
  const text = "${A:-".repeat(19_000);
  expect(expandVariables(text, {})).toBe(text);
  expect(expandVariables(`${text}x${"}".repeat(19_000)}`, {})).toBe("x");
});

test("a value that words make too long is refused", () => {
  const long = "x".repeat(1_000);
  expect(() => expandVariables("${A:-$L}".repeat(99), { L: long })).toThrow("at most 98304");
});

test.for([
  // Neither what the image has nor what the file has is lost.
  ["ARG A", "/x", []],
  ["ARG A=1\nARG A", "/x1", [["A", "1"]]],
  [
    "ARG A=1\nARG A=",
    "/x",
    [
      ["A", "1"],
      ["A", ""],
    ],
  ],
  [
    "ARG A=3\nARG A G",
    "/x3",
    [
      ["A", "3"],
      ["G", "2"],
    ],
  ],
  [
    "ARG A=3\nARG A G=",
    "/x3",
    [
      ["A", "3"],
      ["G", ""],
    ],
  ],
] as const)("of %j the folder is %s and steps set %j", ([lines, folder, pairs]) => {
  const text = `ARG G=2\nFROM a\n${lines}\nWORKDIR /x$A`;
  const { steps } = readDockerfile(text, "Dockerfile");
  expect(steps.filter(({ type }) => type === "ARG").map(({ args }) => args)).toEqual(pairs);
  expect(steps.at(-1)?.args).toEqual([folder]);
});

test("an ARG without a value before FROM sets none behind it, where the image may have one", () => {
  const text = "ARG A\nFROM a:1$A\nARG A\nRUN b";
  const { base, steps } = readDockerfile(text, "Dockerfile");
  expect({ base, types: steps.map(({ type }) => type) }).toEqual({ base: "a:1", types: ["RUN"] });
});

test("an ARG of the platform before FROM keeps its value", () => {
  const text = "ARG BUILDPLATFORM TARGETARCH\nFROM --platform=$BUILDPLATFORM a:$TARGETARCH";
  const own = process.arch === "x64" ? "amd64" : process.arch;
  expect(readDockerfile(text, "Dockerfile").base).toBe(`a:${own}`);
});
