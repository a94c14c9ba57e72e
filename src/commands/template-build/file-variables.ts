/**
 * The variables of a Dockerfile whose values the file itself says. Those of its image are known to the
 * service alone, which expands them in ENV and ARG and nowhere else.
 */

import { ownArchitecture } from "../../images/layout.ts";
import { expandVariables } from "../../sandboxes/template-builds/expand.ts";
import { toValue, type EnvPair } from "./env-words.ts";
import type { Refuse } from "./run-command.ts";

export interface FileVariables {
  /** The pairs of an ARG before FROM, which are for the image and for ARGs without a value. */
  addGlobal(pairs: readonly EnvPair[]): void;
  /** The pairs of an ENV or ARG; returns those that the build sets, name and value by turns. */
  add(keyword: "ENV" | "ARG", pairs: readonly EnvPair[]): string[];
  /** The text without quotes and with every variable replaced, of the file or of ARGs before FROM. */
  expand(text: string, refuse: Refuse): string;
  expandGlobal(text: string, refuse: Refuse): string;
}

type Values = Map<string, string>;

/** In what `expandVariables` takes. */
const VARIABLE = /\\\$|\$\{?([A-Za-z_]\w*)/g;

/** What docker gives an ARG of this name without a value: a build runs on the platform of its sandboxes. */
function platformVariables(): Values {
  const os = "linux";
  const architecture = ownArchitecture();
  const parts = { PLATFORM: `${os}/${architecture}`, OS: os, ARCH: architecture };
  return new Map(
    ["TARGET", "BUILD"].flatMap((prefix) =>
      Object.entries(parts).map(([part, value]) => [`${prefix}${part}`, value] as const),
    ),
  );
}

export function createFileVariables(): FileVariables {
  const globals = platformVariables();
  const values: Values = new Map();
  const setBy = new Map<string, "ENV" | "ARG">();
  return {
    addGlobal: (pairs) => {
      const target = { values: globals, known: globals };
      for (const [name, value] of pairs) {
        // One of the platform keeps its value.
        if (value !== undefined || !globals.has(name)) setValue(target, name, value ?? "");
      }
    },
    add(keyword, pairs) {
      // As in the service, a value sees no other one of its instruction.
      const known = new Map(values);
      return pairs.flatMap(([name, given]) => {
        // As in docker, ENV stands above ARG, wherever it is.
        if (keyword === "ARG" && setBy.get(name) === "ENV") return [];
        const value = given ?? globals.get(name)?.replaceAll("$", String.raw`\$`);
        // Empty is also one that has none before FROM.
        if (value === undefined || (given === undefined && value === "")) {
          // The one that it has already, or that of the image, stays.
          if (!setBy.has(name)) values.set(name, "");
          return [];
        }
        setBy.set(name, keyword);
        setValue({ values, known }, name, value);
        return [name, value];
      });
    },
    expand: (text, refuse) => expandIn(values, text, refuse),
    expandGlobal: (text, refuse) => expandIn(globals, text, refuse),
  };
}

/** One that depends on a variable of the image has no value here. */
function setValue(
  { values, known }: Readonly<Record<"values" | "known", Values>>,
  name: string,
  value: string,
): void {
  if (namesIn(value).every((used) => known.has(used))) {
    values.set(name, expandVariables(value, Object.fromEntries(known)));
  } else values.delete(name);
}

function expandIn(values: Values, text: string, refuse: Refuse): string {
  const value = toValue(text, { refuse });
  const missing = namesIn(value).find((name) => !values.has(name));
  if (missing !== undefined) refuse(`has the variable ${missing}, whose value is not in the file`);
  return expandVariables(value, Object.fromEntries(values));
}

function namesIn(value: string): string[] {
  return [...value.matchAll(VARIABLE)].flatMap(([, name]) => name ?? []);
}
