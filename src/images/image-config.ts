/** The configuration of an image: what a template keeps of it, bounded. */

import { posix } from "node:path";
import { z } from "../common/schema.ts";
import type { ImageConfig } from "./images.ts";
import { layoutFault, ownArchitecture, parse } from "./layout.ts";

const MAX_VARIABLES = 1_024;
const MAX_VARIABLE_BYTES = 128 * 1024;
const MAX_WORDS = 1_024;
const MAX_LABELS = 256;
const MAX_PORT = 65_535;
const MAX_PATH = 4_096;
const MAX_TEXT = 128 * 1024;
/** As POSIX has it; other names no shell can use. */
const NAME_PATTERN = /^[A-Za-z_][A-Za-z0-9_]*$/;

const text = z.string().max(MAX_TEXT);
const list = z.array(text).max(MAX_WORDS).nullish();
const record = z.record(z.string().max(MAX_TEXT), z.unknown()).nullish();

const schema = z.object({
  architecture: z.string().max(256).default(""),
  os: z.string().max(256).default(""),
  config: z
    .object({
      Env: z.array(text).max(MAX_VARIABLES).nullish(),
      WorkingDir: z.string().max(MAX_PATH).nullish(),
      User: z.string().max(256).nullish(),
      OnBuild: list,
      Shell: list,
      Entrypoint: list,
      Cmd: list,
      ExposedPorts: record,
      Labels: record,
    })
    .nullish(),
  rootfs: z.object({ diff_ids: z.array(z.string().max(256)).max(MAX_WORDS) }),
});

export interface RawConfig {
  readonly config: ImageConfig;
  /** As the image names it: `name`, `id`, `name:group`. */
  readonly user: string;
  /** What a template does not keep, and how many there are of it. */
  readonly leftOut: readonly (readonly [what: string, count: number])[];
  /** Digests of the layers as archives, the lowest first. */
  readonly diffIds: readonly string[];
}

/** @throws SandboxError failed_precondition when malformed or for another machine */
export function parseImageConfig(document: Buffer): RawConfig {
  const { architecture, os, config, rootfs } = parse(schema, document, "its configuration");
  if (os !== "linux" || architecture !== ownArchitecture()) {
    layoutFault(`it is for another machine than linux/${ownArchitecture()}`);
  }
  const entries = config?.Env ?? [];
  return {
    diffIds: rootfs.diff_ids,
    user: config?.User ?? "",
    leftOut: [
      [
        "variables with names that no shell can use were left out",
        entries.filter((entry) => /^[^=]+=/.test(entry) && !isUsable(entry)).length,
      ],
      ["its ONBUILD instructions are not run", config?.OnBuild?.length ?? 0],
      ["its SHELL is not that of a Dockerfile upon it", hasOwnShell(config?.Shell ?? []) ? 1 : 0],
    ],
    config: {
      env: toVariables(entries),
      workdir: toWorkdir(config?.WorkingDir ?? ""),
      user: undefined,
      entrypoint: config?.Entrypoint ?? [],
      cmd: config?.Cmd ?? [],
      exposedPorts: toPorts(Object.keys(config?.ExposedPorts ?? {})),
      labels: toLabels(config?.Labels ?? {}),
    },
  };
}

/** Docker runs a RUN of a Dockerfile upon the image by that shell. */
function hasOwnShell(words: readonly string[]): boolean {
  return words.length > 0 && words.join(" ") !== "/bin/sh -c";
}

function toVariables(entries: readonly string[]): ImageConfig["env"] {
  const found = new Map<string, string>();
  for (const entry of entries) {
    const equals = entry.indexOf("=");
    if (isUsable(entry)) found.set(entry.slice(0, equals), entry.slice(equals + 1));
  }
  const bytes = [...found].reduce((sum, [name, value]) => sum + Buffer.byteLength(name + value), 0);
  if (bytes > MAX_VARIABLE_BYTES) layoutFault("its environment is too large");
  return [...found].map(([name, value]) => ({ name, value }));
}

function isUsable(entry: string): boolean {
  const equals = entry.indexOf("=");
  return equals !== -1 && NAME_PATTERN.test(entry.slice(0, equals)) && !entry.includes("\0");
}

function toWorkdir(path: string): string | undefined {
  if (path.includes("\0")) return undefined;
  const absolute = posix.resolve("/", path);
  return absolute === "/" ? undefined : absolute;
}

function toPorts(keys: readonly string[]): number[] {
  const ports = keys.flatMap((key) => {
    const port = Number(/^([0-9]{1,5})(?:\/tcp)?$/.exec(key)?.[1] ?? 0);
    return port > 0 && port <= MAX_PORT ? [port] : [];
  });
  return [...new Set(ports)].toSorted((left, right) => left - right);
}

function toLabels(labels: Readonly<Record<string, unknown>>): ImageConfig["labels"] {
  return Object.entries(labels)
    .flatMap(([name, value]) => (typeof value === "string" ? [{ name, value }] : []))
    .slice(0, MAX_LABELS);
}
