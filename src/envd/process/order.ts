/** What the daemon tells the perl programs that start others. */

import type { Launch } from "./launch.ts";

export type Field = string | number;

/** Where, as whom, with what and what is executed, in the order of the programs. */
export function launchFields({ cwd, identity, env, words }: Launch): readonly Field[] {
  const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`);
  const user =
    identity === undefined ? ["", "", ""] : [identity.uid, identity.gid, identity.groups.join(",")];
  return [cwd, ...user, variables.length, ...variables, ...words];
}

/** A record: its length, 32 bits in network order, a letter where the program has several, and fields that end in NUL. */
export function encodeOrder(letter: string, fields: readonly Field[]): Buffer {
  const content = Buffer.from(`${letter}${fields.map((field) => `${field}\0`).join("")}`);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(content.length);
  return Buffer.concat([length, content]);
}
