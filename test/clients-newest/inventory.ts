/** What the public clients send and read, by their packages: operations with their fields, and messages. */

import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

/** Lines that can be compared: `GET /sandboxes`, `GET /sandboxes query limit`, `Sandbox.domain`. */
export type Inventory = readonly string[];

/** Of the npm package in a directory. */
export async function readNpm(directory: string): Promise<Inventory> {
  const code = await readFile(join(directory, "dist/index.mjs"), "utf8");
  const types = await readFile(join(directory, "dist/index.d.ts"), "utf8");
  const calls = [...code.matchAll(/\.api\.(GET|POST|PUT|PATCH|DELETE)\("([^"]+)"/g)];
  const fetched = [...code.matchAll(/\b(?:api|rpc)\.(\w+)\(\{/g)].map(([, name = ""]) => name);
  const messages = [...code.matchAll(/fileDesc\("([A-Za-z0-9+/=]+)"/g)].flatMap(([, text = ""]) =>
    readNames(Buffer.from(text, "base64")),
  );
  return unique([
    ...calls.map(([, method = "", path = ""]) => `${method} ${path}`),
    ...fetched.map((name) => `rpc ${name}`),
    ...readSchemas(types),
    ...messages,
  ]);
}

/** The fields of the schemas in a file of types. */
function readSchemas(types: string): string[] {
  const found: string[] = [];
  let name = "";
  let isInside = false;
  for (const line of types.split("\n")) {
    if (/^ {2}schemas: \{$/.test(line)) isInside = true;
    else if (/^ {2}\};?$/.test(line)) isInside = false;
    if (!isInside) continue;
    name = /^ {4}(\w+)\??: /.exec(line)?.[1] ?? name;
    const field = /^ {6,}"?([\w-]+)"?\??: /.exec(line)?.[1];
    if (name !== "" && field !== undefined) found.push(`${name}.${field}`);
  }
  return found;
}

/** The names in a description of protocol messages; each stands behind its length. */
function readNames(description: Buffer): string[] {
  const text = description.toString("latin1");
  return [...text.matchAll(/[A-Za-z_][A-Za-z0-9_]{1,63}/g)]
    .filter(({ 0: name, index }) => text.charCodeAt(index - 1) === name.length)
    .map(([name]) => `message name ${name}`);
}

/** Of the Python package in a directory. */
export async function readPython(directory: string): Promise<Inventory> {
  const names = await readdir(directory, { recursive: true });
  const found: string[] = [];
  for (const name of names.filter((one) => one.endsWith(".py")).toSorted()) {
    const code = await readFile(join(directory, name), "utf8");
    if (name.includes("client/api/")) found.push(...readOperation(code));
    else if (name.includes("client/models/")) found.push(...readModel(code));
    else if (name.endsWith("_pb.py")) found.push(...readMessages(code));
    else if (name.endsWith("_pb2.pyi")) found.push(...readMessages(code));
  }
  return unique(found);
}

function readOperation(code: string): string[] {
  const method = /"method": "(\w+)"/.exec(code)?.[1];
  const path = /"url": f?"([^"]+)"/.exec(code)?.[1];
  if (method === undefined || path === undefined) return [];
  const operation = `${method.toUpperCase()} ${path}`;
  const queries = [...code.matchAll(/params\["([^"]+)"\]/g)].map(
    ([, name = ""]) => `query ${name}`,
  );
  const headers = [...code.matchAll(/headers\["([^"]+)"\]/g)].map(
    ([, name = ""]) => `header ${name}`,
  );
  return [operation, ...[...queries, ...headers].map((part) => `${operation} ${part}`)];
}

function readModel(code: string): string[] {
  const name = /^class (\w+)/m.exec(code)?.[1] ?? "";
  const fields = [...code.matchAll(/\bd\.pop\("([^"]+)"/g)];
  const values = [...code.matchAll(/^ {4}[A-Z0-9_]+ = "([^"]+)"$/gm)];
  return [
    ...fields.map(([, field = ""]) => `${name}.${field}`),
    ...values.map(([, value = ""]) => `${name} = ${value}`),
  ];
}

function readMessages(code: string): string[] {
  const found: string[] = [];
  let name = "";
  for (const line of code.split("\n")) {
    name = /^ *class (\w+)/.exec(line)?.[1] ?? name;
    const field = /^ +(?:\w+ )*[\w.<>, ]+ (\w+ = \d+);$/.exec(line)?.[1];
    if (field !== undefined) found.push(`${name}.${field}`);
  }
  return found;
}

function unique(lines: readonly string[]): string[] {
  return [...new Set(lines)].toSorted();
}

/** What one inventory has and the other has not, with a sign before each line. */
export function compare(before: Inventory, after: Inventory): string[] {
  const [known, found] = [new Set(before), new Set(after)];
  return [
    ...before.filter((line) => !found.has(line)).map((line) => `- ${line}`),
    ...after.filter((line) => !known.has(line)).map((line) => `+ ${line}`),
  ];
}
