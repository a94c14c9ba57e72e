/** Holds the programs in `src/perl` to their rules: with Node alone, wherever that has them. */

import { readdir, readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { findFaults, readCallNames } from "./perl-rules.ts";

const PROGRAMS = resolve(import.meta.dirname, "../src/perl");
const TABLE = "syscalls.pl";

const calls = readCallNames(await readFile(join(PROGRAMS, TABLE), "utf8"));
const used = new Set<string>();
const faults: string[] = [];
for (const name of await readdir(PROGRAMS)) {
  const text = await readFile(join(PROGRAMS, name), "utf8");
  for (const [, call = ""] of text.matchAll(/\$call->\{(\w+)\}/g)) used.add(call);
  faults.push(...findFaults(text, calls).map((fault) => `src/perl/${name}:${fault}`));
}
for (const call of calls.difference(used)) faults.push(`src/perl/${TABLE}: nobody calls ${call}`);
if (used.size === 0) faults.push("src/perl: no program was read");
for (const fault of faults) process.stderr.write(`${fault}\n`);
if (faults.length > 0) process.exitCode = 1;
