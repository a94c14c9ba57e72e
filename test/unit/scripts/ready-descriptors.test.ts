/** Descriptors that the build writes as literals are those that the library decodes. */

import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { runInNewContext } from "node:vm";
import { equals, fromBinary, isMessage, toBinary } from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import { expect, test } from "vitest";
import { literalOf, readyDescriptors } from "../../../scripts/ready-descriptors.ts";

const ROOT = resolve(import.meta.dirname, "../../..");
const MODULES = [
  "src/gen/process/process_pb.ts",
  "src/gen/filesystem/filesystem_pb.ts",
  // Has fields with defaults, options, reserved ranges and extensions.
  "node_modules/@bufbuild/protobuf/dist/esm/wkt/google/protobuf/compiler/plugin_pb.js",
  "node_modules/@bufbuild/protobuf/dist/esm/wkt/google/protobuf/timestamp_pb.js",
];

async function encodedIn(module: string): Promise<string> {
  const text = await readFile(resolve(ROOT, module), "utf8");
  const [, encoded] = /fileDesc\("([^"]+)"/.exec(text) ?? [];
  if (encoded === undefined) throw new Error(`${module} has no descriptor`);
  return encoded;
}

/** Every message within, with what it inherits: by that the library knows which fields are set. */
function inheritedIn(value: unknown): unknown[] {
  if (typeof value !== "object" || value === null) return [];
  const own = isMessage(value) ? [[value.$typeName, { ...Object.getPrototypeOf(value) }]] : [];
  return [...own, ...Object.values(value).flatMap(inheritedIn)];
}

test.each(MODULES)("a literal is the descriptor in %s", async (module) => {
  const encoded = await encodedIn(module);
  const decoded = fromBinary(FileDescriptorProtoSchema, Buffer.from(encoded, "base64"));
  const ready: unknown = runInNewContext(literalOf(encoded));
  if (!isMessage(ready, FileDescriptorProtoSchema)) throw new Error("not a descriptor");
  expect(equals(FileDescriptorProtoSchema, ready, decoded)).toBe(true);
  expect(Buffer.from(toBinary(FileDescriptorProtoSchema, ready)).toString("base64")).toBe(
    Buffer.from(toBinary(FileDescriptorProtoSchema, decoded)).toString("base64"),
  );
  expect(inheritedIn(ready)).toEqual(inheritedIn(decoded));
});

test("a library that decodes elsewhere ends the build", () => {
  const { transform } = readyDescriptors();
  if (typeof transform !== "function") throw new Error("no function");
  const id = "/x/node_modules/@bufbuild/protobuf/dist/esm/codegenv2/file.js";
  expect(() => Reflect.apply(transform, undefined, ["export function fileDesc() {}", id])).toThrow(
    "does not have",
  );
});
