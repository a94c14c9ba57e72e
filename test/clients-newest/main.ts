/**
 * Compares the public clients that the registries have today with the committed inventory of their
 * requests, and prints what changed: `node test/clients-newest/main.ts [--update]`. It ends with 1
 * where anything changed, so that a scheduled run tells; `--update` writes the inventory anew.
 */

import { glob, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { z } from "zod";
import { installNpm, newestNpm, newestPython } from "../support/clients/newest-clients.ts";
import { findPythonClient } from "../support/clients/python-client.ts";
import { compare, readNpm, readPython, type Inventory } from "./inventory.ts";

const PATH = join(import.meta.dirname, "inventory.json");

const packageSchema = z.object({ version: z.string(), requests: z.array(z.string()) });
const inventorySchema = z.object({ npm: packageSchema, python: packageSchema });

async function findNpm() {
  const version = await newestNpm();
  return { version, requests: await readNpm(await installNpm(version)) };
}

async function findPython() {
  const version = await newestPython();
  const { python, reason } = await findPythonClient(version);
  if (python === undefined) throw new Error(reason);
  const library = join(dirname(python), "../lib");
  const [folder] = await Array.fromAsync(glob("python3*", { cwd: library }));
  return { version, requests: await readPython(join(library, folder ?? "", "site-packages/e2b")) };
}

interface Package {
  readonly version: string;
  readonly requests: Inventory;
}

/** Prints the difference; says whether there is one. */
function print(name: string, before: Package, after: Package): boolean {
  const changes = compare(before.requests, after.requests);
  const { length } = after.requests;
  process.stdout.write(`${name} ${before.version} -> ${after.version}: `);
  process.stdout.write(`${length} lines, ${changes.length} changes\n`);
  for (const line of changes) process.stdout.write(`  ${line}\n`);
  return changes.length > 0;
}

const [npm, python] = await Promise.all([findNpm(), findPython()]);
if (process.argv.includes("--update")) {
  await writeFile(PATH, `${JSON.stringify({ npm, python }, undefined, 2)}\n`);
} else {
  const known = inventorySchema.parse(JSON.parse(await readFile(PATH, "utf8")));
  const isChanged = [
    print("npm e2b", known.npm, npm),
    print("PyPI e2b", known.python, python),
  ].includes(true);
  process.exitCode = isChanged ? 1 : 0;
}
