/** The flags of the command line. */

import { parseArgs } from "node:util";
import { listSettings } from "./settings.ts";

/** One line per flag, for the help text. */
export function describeFlags(): string[] {
  return listSettings()
    .filter(([, setting]) => setting.flag !== undefined)
    .map(([, { flag = "", short, help }]) => {
      const names = short === undefined ? flag : `${flag}, -${short}`;
      return `  --${names.padEnd(22)} ${help}`;
    });
}

interface ParsedFlags {
  readonly values: ReadonlyMap<string, string>;
  readonly words: readonly string[];
  readonly faults: readonly string[];
}

/** Reads flags and words; values are not checked. */
export function parseFlags(argv: readonly string[]): ParsedFlags {
  const known = new Map(
    listSettings().flatMap(([, setting]) => (setting.flag ? [[setting.flag, setting]] : [])),
  );
  const options = Object.fromEntries(
    [...known].map(([name, setting]) => [
      name,
      {
        type: setting.isSwitch ? ("boolean" as const) : ("string" as const),
        ...(setting.short !== undefined && { short: setting.short }),
      },
    ]),
  );
  const parsed = parseArgs({
    args: [...argv],
    options,
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const values = new Map<string, string>();
  const faults: string[] = [];
  for (const token of parsed.tokens) {
    if (token.kind !== "option") continue;
    const setting = known.get(token.name);
    if (setting === undefined) faults.push(`${token.rawName}: no such flag`);
    else if (setting.isSwitch) values.set(token.name, token.value ?? "true");
    else if (token.value === undefined) faults.push(`${token.rawName}: needs a value`);
    else values.set(token.name, token.value);
  }
  return { values, words: parsed.positionals, faults };
}
