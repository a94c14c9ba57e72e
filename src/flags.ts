/** The flags of the command line. */

import { parseArgs } from "node:util";
import { quoteName } from "./common/untrusted-text.ts";
import type { Setting } from "./setting-values.ts";
import { listSettings } from "./settings.ts";

/** One line per flag, for the help text. */
export function describeFlags(isShown: (flag: string) => boolean = () => true): string[] {
  return listSettings()
    .filter(([, { flag }]) => flag !== undefined && isShown(flag))
    .map(([, { flag = "", short, help }]) => {
      const names = short === undefined ? flag : `${flag}, -${short}`;
      return `  --${names.padEnd(22)} ${help}`;
    });
}

export interface ParsedFlags {
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
    const fault = faultOf(token, setting, values.has(token.name));
    if (fault === undefined) values.set(token.name, token.value ?? "true");
    else faults.push(`${quoteName(token.rawName)}: ${fault}`);
  }
  return { values, words: parsed.positionals, faults };
}

interface OptionToken {
  readonly rawName: string;
  readonly value?: string | undefined;
  readonly inlineValue?: boolean | undefined;
}

function faultOf(token: OptionToken, setting: Setting | undefined, isGiven: boolean) {
  if (setting === undefined) return "no such flag: sandbox-mcp --help lists all";
  if (isGiven) return "given twice";
  if (setting.isSwitch) return undefined;
  if (token.value === undefined) return "needs a value";
  // A flag that follows is not the value of the one before it.
  if (token.inlineValue === true || !token.value.startsWith("-")) return undefined;
  return `needs a value; one that begins with a dash is written --${setting.flag}=VALUE`;
}
