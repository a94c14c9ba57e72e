/** Lines that were edited on a terminal read as they stood there in the end. */

import { expect, test } from "vitest";
import { cleanTerminal } from "../../../src/output/text.ts";

const E = "\u001b[";

test.for([
  { name: "a typed character that was taken back", raw: "ls -x\b \b\r\n", clean: "ls - \n" },
  { name: "an inserted character", raw: `ac${E}D${E}@b`, clean: "abc" },
  { name: "a deleted character", raw: `abbc${E}2D${E}P`, clean: "abc" },
  { name: "a line that was written again", raw: `>>> 1${E}5G+1${E}K`, clean: ">>> +1" },
  { name: "colours among moves", raw: `${E}31mab${E}0m${E}1DX`, clean: "aX" },
  { name: "an erased part", raw: `abcd${E}2D${E}K`, clean: "ab" },
  { name: "what stands left of the cursor", raw: `abcd${E}2D${E}1K`, clean: "   d" },
  { name: "a whole screen", raw: `${E}1;1Htop${E}2;1Hnext`, clean: "\ntop\nnext" },
  { name: "a move to the right", raw: `name${E}20Gvalue`, clean: `name${" ".repeat(15)}value` },
  { name: "a move far to the right", raw: `a${E}999999Cb`, clean: "a b" },
  { name: "a lone backspace", raw: "a\bb", clean: "a\\u0008b" },
  { name: "a progress bar with erased lines", raw: `10%\r${E}K50%`, clean: "50%" },
])("$name is rendered", ({ raw, clean }) => {
  expect(cleanTerminal(raw)).toBe(clean);
});

test.for([
  { name: "to a column", move: `${E}40G` },
  { name: "to the right", move: `${E}5C` },
])("cells of a line that is too long to render stay apart at a move $name", ({ move }) => {
  const cell = "x".repeat(3_000);
  expect(cleanTerminal(`${cell}${move}${cell}`)).toBe(`${cell} ${cell}`);
});

const edits = (edit: string) => `${E}600Cx${"y".repeat(600)}${edit.repeat(600)}`.slice(0, 4_096);

test.for([
  { name: "insertions", line: `${"x".repeat(2_000)}${`${E}9999@${E}D`.repeat(200)}` },
  { name: "long insertions", line: `${E}4096@`.repeat(585) },
  { name: "moves", line: `${E}9999Cx` },
  { name: "moves and erasures", line: edits(`${E}600C${E}G${E}K`) },
  { name: "erasures to the left", line: edits(`${E}1K`) },
  { name: "whole erasures", line: edits(`${E}2K`) },
])("lines with nothing but $name cost no more than ten times as much as typed ones", ({ line }) => {
  const text = linesOf(line);
  expect(cpuOf(text)).toBeLessThan(10 * cpuOf(linesOf("ls -x\b \b")));
  expect(cleanTerminal(text).length).toBeLessThan(6 * text.length);
});

/** 200 KB. */
function linesOf(line: string): string {
  return `${line}\n`.repeat(Math.floor(200_000 / line.length));
}

/** The least of some times, in microseconds: the machine may hold one up. */
function cpuOf(text: string): number {
  const times = Array.from({ length: 3 }, () => {
    const before = process.threadCpuUsage();
    cleanTerminal(text);
    return process.threadCpuUsage(before).user;
  });
  return Math.min(...times);
}
