/** Python that uses the modules of the interpreter. */

import { execFile } from "node:child_process";
import { resolve } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
const MODULES = resolve(import.meta.dirname, "../../../src/interpreter");

/** What a program prints as JSON that imports them. */
export async function evaluate(program: string): Promise<unknown> {
  const whole = `import json, sys\nsys.path.insert(0, ${JSON.stringify(MODULES)})\n${program}`;
  const { stdout } = await run("python3", ["-B", "-c", whole], { timeout: 30_000 });
  return JSON.parse(stdout);
}
