/**
 * Starts the daemon's program from what was compiled of it before, also of the functions that only
 * its first calls run: Node's own cache holds those that ran while it loaded, and nothing else.
 * Arguments are the program, the file of the compiled code, and `keep` to write that file at the end.
 */

import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname } from "node:path";
import { Script } from "node:vm";

const [program = "", compiled = "", plan] = process.argv.slice(2);
// A build is plain ASCII, which takes half the memory so.
const source = readFileSync(program, "latin1");
const cachedData = readIfThere(compiled);
// Code of another node or of other flags is refused by the engine, which compiles it anew.
const script = new Script(
  `(function (exports, require, module, __filename, __dirname) {${source}\n})`,
  { filename: program, ...(cachedData !== undefined && { cachedData }) },
);
const own = { exports: {} };
// Without `keep` a program finds what lies beside it; with it, nothing of the host is to be touched.
const directory = plan === "keep" ? process.cwd() : dirname(program);
script.runInThisContext()(own.exports, createRequire(program), own, program, directory);
if (plan === "keep") {
  process.once("exit", () => writeFileSync(compiled, script.createCachedData()));
}

function readIfThere(path: string): Buffer | undefined {
  try {
    return readFileSync(path);
  } catch {
    return undefined;
  }
}
