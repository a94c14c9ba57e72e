/** A process that keeps a copy of the program's files in a home until it is killed; prints its name. */

import { basename } from "node:path";
import { holdProgramFiles } from "../../../src/commands/program/program-copies.ts";
import { createSilentLog } from "../../../src/common/log.ts";

const [, , home = ""] = process.argv;
const files = await holdProgramFiles(home, createSilentLog());
process.stdout.write(`${basename(files.perlDirectory)}\n`);
process.stdin.resume();
