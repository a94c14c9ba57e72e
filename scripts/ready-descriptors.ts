/**
 * Descriptors of protocol buffers as the object literals that the library would decode them to.
 * Generated code has each file's descriptor as base64 of its binary form, so every start of a program
 * decodes them all, and needs the descriptor of descriptors for it: half of what a daemon takes
 * beyond Node itself. The build decodes them instead.
 */

import { fromBinary } from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import type { Plugin } from "rolldown";

/** The module of the library that decodes, and the one expression in it that does. */
const DECODER = "/@bufbuild/protobuf/dist/esm/codegenv2/file.js";
const DECODING = "fromBinary(FileDescriptorProtoSchema, base64Decode(b64))";
const CALL = /\bfileDesc\("([A-Za-z0-9+/=]+)"/g;

/** Writes every descriptor of a bundle as a literal. */
export function readyDescriptors(): Plugin {
  return {
    name: "ready-descriptors",
    transform(code, id) {
      if (id.endsWith(DECODER)) {
        const parts = code.split(DECODING);
        if (parts.length !== 2) throw new Error(`${id} does not have "${DECODING}" once`);
        return parts.join("b64");
      }
      return code.replaceAll(CALL, (_call, encoded: string) => `fileDesc(${literalOf(encoded)}`);
    },
  };
}

/**
 * The expression for a file's descriptor, base64 as in generated code. Messages inherit the defaults
 * of their fields, which the library tells from fields that are set by that.
 */
export function literalOf(encoded: string): string {
  const file = fromBinary(FileDescriptorProtoSchema, Buffer.from(encoded, "base64"));
  const defaults = new Map<string, string>();
  const root = print(file, defaults);
  const list = [...defaults.values()].join(",");
  return `(($) => (${root}))([${list}])`;
}

/** Defaults are printed once for each type of message, and found by their place in the list. */
function print(value: unknown, defaults: Map<string, string>): string {
  if (value instanceof Uint8Array) throw new Error("a descriptor holds bytes");
  if (Array.isArray(value)) return `[${value.map((each) => print(each, defaults)).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const fields = Object.entries(value).filter(([, field]) => field !== undefined);
  const own = fields.map(([name, field]) => `${name}:${print(field, defaults)}`);
  const inherited: unknown = Object.getPrototypeOf(value);
  if (inherited === Object.prototype || inherited === null) return `{${own.join(",")}}`;
  const name = "$typeName" in value ? String(value.$typeName) : "";
  if (!defaults.has(name)) defaults.set(name, JSON.stringify(inherited));
  return `{__proto__:$[${[...defaults.keys()].indexOf(name)}],${own.join(",")}}`;
}
