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
  for (const [at, token] of parsed.tokens.entries()) {
    if (token.kind !== "option") continue;
    const setting = known.get(token.name);
    const fault =
      switchFault(token, setting, parsed.tokens[at + 1]) ??
      faultOf(token, setting, values.has(token.name));
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

/** The value of a switch as a word of its own would be the directory or the name of a command. */
function switchFault(
  { rawName, value }: OptionToken,
  setting: Setting | undefined,
  following: { readonly kind: string; readonly value?: string | undefined } | undefined,
): string | undefined {
  const isAlone = setting?.isSwitch === true && value === undefined;
  if (!isAlone || following?.kind !== "positional") return undefined;
  const word = following.value ?? "";
  if (!/^(?:on|off|true|false|yes|no|0|1)$/i.test(word)) return undefined;
  return `takes no value in a word of its own: ${rawName}, or --${setting.flag}=${word}`;
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
