/** Runs the two programs that know networks, in the network namespace of a file. */

import { basename, dirname } from "node:path";
import { errorText } from "../../common/errors.ts";
import { runProgram } from "../host/run-program.ts";

/** Each a path and what is written there. */
const WRITE_EACH = 'while [ $# -gt 0 ]; do printf %s "$2" > "$1" || exit; shift 2; done';

/** Path of a namespace file; undefined is the one of this process. */
export type NetworkPath = string | undefined;

/** Applies rules in one transaction: all of them or, with a fault, none. */
export async function applyRules(network: NetworkPath, rules: string): Promise<void> {
  await runIn(network, { command: ["nft", "-f", "-"], input: rules });
}

/** Runs lines of `ip` up to the first that fails; `peer` is a namespace that they name by `peerName`. */
export async function changeLinks(
  network: NetworkPath,
  batch: string,
  peer?: string,
): Promise<void> {
  const folder = peer === undefined ? {} : { cwd: dirname(peer) };
  await runIn(network, { command: ["ip", "-batch", "-"], input: batch, ...folder });
}

/**
 * A namespace as a line of `ip` that runs in the folder of its file: a space of a path would end the
 * word, and a hash the line, also in quotes.
 */
export function peerName(path: string): string {
  return `./${basename(path)}`;
}

/** Takes a link away. Idempotent: the kernel takes it too, when the namespace of its other end goes. */
export async function deleteLink(network: NetworkPath, name: string): Promise<void> {
  if (!(await listLinks(network)).includes(name)) return;
  try {
    await changeLinks(network, `link delete dev ${name}\n`);
  } catch (error) {
    if ((await listLinks(network)).includes(name)) throw error;
  }
}

/** Writes kernel settings as this namespace sees them. */
export async function writeSettings(
  network: NetworkPath,
  settings: readonly (readonly [path: string, value: string])[],
): Promise<void> {
  await runIn(network, { command: ["sh", "-c", WRITE_EACH, "sh", ...settings.flat()] });
}

/** One kernel setting as this namespace sees it. */
export async function readSetting(network: NetworkPath, path: string): Promise<string> {
  return (await runIn(network, { command: ["cat", path] })).trim();
}

export async function listLinks(network: NetworkPath): Promise<string[]> {
  const text = await runIn(network, { command: ["ip", "-oneline", "link", "show"] });
  return [...text.matchAll(/^\d+: ([^:@\s]+)/gm)].map((match) => match[1] ?? "");
}

/** The rules by which the kernel selects a table of routes; empty where it has one table alone. */
export async function listPolicyRules(network: NetworkPath): Promise<string> {
  return runIn(network, { command: ["ip", "-4", "rule", "show"] }).catch(() => "");
}

/** Any address of the internet, to which nothing is sent. */
const FAR_ADDRESS = "4.0.0.1";
const NO_ROUTE = /unreachable/i;

/** The link by which IPv4 leads outside, that of a private network which takes all too; undefined where none does. */
export async function defaultLink(network: NetworkPath): Promise<string | undefined> {
  try {
    const text = await runIn(network, { command: ["ip", "-4", "route", "get", FAR_ADDRESS] });
    return /\bdev (\S+)/.exec(text)?.[1];
  } catch (error) {
    if (NO_ROUTE.test(errorText(error))) return undefined;
    throw error;
  }
}

/** The IPv4 addresses of a namespace's own links. */
export async function listAddresses(network: NetworkPath): Promise<string[]> {
  const text = await runIn(network, { command: ["ip", "-4", "-oneline", "addr", "show"] });
  return [...text.matchAll(/\binet (\d+\.\d+\.\d+\.\d+)/g)].map((match) => match[1] ?? "");
}

/** Names of the tables of rules of a namespace. */
export async function listTables(network: NetworkPath): Promise<string[]> {
  const text = await runIn(network, { command: ["nft", "list", "tables"] });
  return [...text.matchAll(/^table inet (\S+)/gm)].map((match) => match[1] ?? "");
}

/** A chain of rules of a namespace. */
export interface RuleChain {
  /** Its family and name. */
  readonly table: string;
  readonly name: string;
  /** Where it hooks in and what its policy is, as it is written; empty for one that others jump to. */
  readonly type: string;
}

export async function listChains(network: NetworkPath): Promise<RuleChain[]> {
  const text = await runIn(network, { command: ["nft", "list", "chains"] });
  return [...text.matchAll(/^table (\S+ \S+) \{\n(.*?)^\}/gms)].flatMap(
    ([, table = "", chains = ""]) =>
      [...chains.matchAll(/^\s*chain (\S+) \{\s*(.*?)\s*\}/gms)].map(
        ([, name = "", type = ""]) => ({
          table,
          name,
          type,
        }),
      ),
  );
}

/** Rules as they are written, of a part that is named as `table ip filter` or `chain ip filter FORWARD`. */
export async function listRules(network: NetworkPath, part: string): Promise<string> {
  return runIn(network, { command: ["nft", "-t", "list", ...part.split(" ")] });
}

async function runIn(
  network: NetworkPath,
  call: {
    readonly command: readonly [string, ...string[]];
    readonly input?: string;
    readonly cwd?: string;
  },
): Promise<string> {
  const { command, ...options } = call;
  const entered: readonly [string, ...string[]] =
    network === undefined ? command : ["nsenter", `--net=${network}`, "--", ...command];
  return runProgram(entered, options);
}
