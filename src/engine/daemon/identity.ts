/** The name of the daemon's folder: it changes with whatever the folder is made of. */

import { createHash } from "node:crypto";
import { readFileSync, statSync } from "node:fs";

/** A change of the folder's layout makes a new folder. */
const LAYOUT = 7;

/** Programs by the name that they get in the folder. */
export interface Parts {
  readonly programs: Readonly<Record<string, string>>;
  /** Files of code, by their names there too. */
  readonly scripts: Readonly<Record<string, string>>;
  readonly perlDirectory: string;
  /** What the compiled code depends on besides: the flags of node and the calls of the warm-up run. */
  readonly compiledFor: string;
}

/** Of the last folder that was asked for: each start asks, nearly always for the same one. */
let known: { readonly stamps: string; readonly identity: string } | undefined;

/**
 * A name that changes with any part. Reading 100 MB of node at each start would cost too much; of the
 * code, which is read, as long as no file has changed, by its change time, the last answer holds.
 */
export function identityOf({ programs, scripts, compiledFor }: Parts): string {
  const asked = `layout ${LAYOUT}\n${compiledFor}\n`;
  const files = Object.entries(programs).map(([name, path]) => {
    const { size, mtimeNs, ino } = statSync(path, { bigint: true });
    return `${name} ${path} ${size} ${mtimeNs} ${ino}\n`;
  });
  const code = Object.entries(scripts);
  const stamps = [asked, ...files, ...code.map(([name, path]) => stampOf(name, path))].join("");
  if (known?.stamps === stamps) return known.identity;
  const hash = createHash("sha256").update(asked).update(files.join(""));
  for (const [name, path] of code) hash.update(name).update(readFileSync(path));
  const identity = hash.digest("hex").slice(0, 32);
  known = { stamps, identity };
  return identity;
}

function stampOf(name: string, path: string): string {
  const { dev, ino, size, ctimeNs } = statSync(path, { bigint: true });
  return `${name} ${path} ${dev} ${ino} ${size} ${ctimeNs}\n`;
}
