/** Runs the two programs that know networks, in the network namespace of a file: several by one start of a shell. */

import { basename, dirname } from "node:path";
import { errorText } from "../../common/errors.ts";
import { readKernelFile } from "../../common/files.ts";
import { runProgram } from "../host/run-program.ts";

/** Path of a namespace file; undefined is the one of this process. */
export type NetworkPath = string | undefined;

type Command = readonly [string, ...string[]];

/** What is changed of a namespace, in this order, up to the first part that fails. */
export interface NetworkChange {
  /** For nft, in one transaction: all of them or, with a fault, none. */
  readonly rules: string;
  /**
   * Where there is a link of this name, nothing after the rules is done; with a fault after them it goes
   * again. One that a kill left half made goes first, in a namespace with `UNFINISHED_LINKS`.
   */
  readonly unless?: string;
  /** Lines of `ip`, which name the peer by `peerName`. */
  readonly links?: string;
  /** Each a path and what is written there. */
  readonly settings?: readonly (readonly [path: string, value: string])[];
  /** Lines of `ip` that are run in another namespace. */
  readonly peer?: { readonly path: string; readonly links: string };
}

/** Links of the namespace of the program that reads: a directory for each, and a line for each. */
const LINK_SETTINGS = "/proc/sys/net/ipv4/conf";
const LINKS = "/proc/self/net/dev";

/**
 * Each new link of the namespace has this number, for which the kernel has no use, until all of a change
 * is done. Links and namespaces of earlier versions have 0, as those that are whole.
 */
export const UNFINISHED_LINKS = [`${LINK_SETTINGS}/default/tag`, "1"] as const;

/** A start of a program holds this process up, which the starts by the shell do not. */
const CHANGE = `nft -f - || exit
unless=$1 links=$2 peer=$3 far=$4
shift 4
undo() { [ -z "$unless" ] || ip link delete dev "$unless" 2> /dev/null; exit 1; }
tag="${LINK_SETTINGS}/$unless/tag"
if [ -n "$unless" ] && [ -e "$tag" ]; then
  # Some shells read by single bytes, of which the kernel gives the first one alone: a failure for them.
  read -r unfinished < "$tag"
  [ "$unfinished" != 0 ] || exit 0
  ip link delete dev "$unless" || [ ! -e "$tag" ] || exit
fi
[ -z "$links" ] || printf %s "$links" | ip -batch - || undo
while [ $# -gt 0 ]; do printf %s "$2" > "$1" || undo; shift 2; done
[ -z "$peer" ] || printf %s "$far" | nsenter --net="$peer" -- ip -batch - || undo
[ -z "$unless" ] || printf 0 > "$tag" || undo`;

/** Changes a namespace by one start of a program. */
export async function changeNetwork(network: NetworkPath, change: NetworkChange): Promise<void> {
  await runChange(enterCommand(network), change);
}

/** Changes a new namespace, which the file keeps; without one it ends at once. */
export async function makeNetwork(path: NetworkPath, change: NetworkChange): Promise<void> {
  await runChange(["unshare", path === undefined ? "--net" : `--net=${path}`, "--"], change);
}

async function runChange(enter: readonly string[], change: NetworkChange): Promise<void> {
  const { rules, unless = "", links = "", settings = [], peer } = change;
  const far = peer === undefined ? ["", ""] : [peerName(peer.path), peer.links];
  const words = [unless, links, ...far, ...settings.flat()];
  const folder = peer === undefined ? {} : { cwd: dirname(peer.path) };
  await run([...enter, "sh", "-c", CHANGE, "sh", ...words], { input: rules, ...folder });
}

/** Applies rules in one transaction: all of them or, with a fault, none. */
export async function applyRules(network: NetworkPath, rules: string): Promise<void> {
  await runIn(network, ["nft", "-f", "-"], rules);
}

/** Runs lines of `ip` up to the first that fails. */
export async function changeLinks(network: NetworkPath, batch: string): Promise<void> {
  await runIn(network, ["ip", "-batch", "-"], batch);
}

/**
 * A namespace as a line of `ip` that runs in the folder of its file: a space of a path would end the
 * word, and a hash the line, also in quotes.
 */
export function peerName(path: string): string {
  return `./${basename(path)}`;
}

/** One kernel setting as this namespace sees it. */
export async function readSetting(network: NetworkPath, path: string): Promise<string> {
  return (await readIn(network, path)).trim();
}

export async function listLinks(network: NetworkPath): Promise<string[]> {
  return parseLinks(await readIn(network, LINKS));
}

/** The kernel takes a link too, when the namespace of its other end goes, maybe at this moment. */
const REMOVE = `for link; do
  [ ! -e "${LINK_SETTINGS}/$link" ] || ip link delete dev "$link" || [ ! -e "${LINK_SETTINGS}/$link" ] || exit
done
nft -f - && exec cat ${LINKS}`;

/** Takes links away, whether or not they are there, and then applies rules. Names those that are left. */
export async function removeLinks(
  network: NetworkPath,
  names: readonly string[],
  rules: string,
): Promise<string[]> {
  return parseLinks(await runScript(network, [REMOVE, ...names], rules));
}

function parseLinks(text: string): string[] {
  return [...text.matchAll(/^ *([^:\s]+):/gm)].map((match) => match[1] ?? "");
}

/** Any address of the internet, to which nothing is sent. */
const FAR_ADDRESS = "4.0.0.1";
const NO_ROUTE = /unreachable/i;

/** The link by which IPv4 leads outside, that of a private network which takes all too; undefined where none does. */
export async function defaultLink(network: NetworkPath): Promise<string | undefined> {
  try {
    const text = await runIn(network, ["ip", "-4", "route", "get", FAR_ADDRESS]);
    return /\bdev (\S+)/.exec(text)?.[1];
  } catch (error) {
    if (NO_ROUTE.test(errorText(error))) return undefined;
    throw error;
  }
}

/** The IPv4 addresses of a namespace's own links. */
export async function listAddresses(network: NetworkPath): Promise<string[]> {
  const text = await runIn(network, ["ip", "-4", "-oneline", "addr", "show"]);
  return [...text.matchAll(/\binet (\d+\.\d+\.\d+\.\d+)/g)].map((match) => match[1] ?? "");
}

/** Names of the tables of rules of a namespace. */
export async function listTables(network: NetworkPath): Promise<string[]> {
  const text = await runIn(network, ["nft", "list", "tables"]);
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
  const text = await runIn(network, ["nft", "list", "chains"]);
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
  return runIn(network, ["nft", "-t", "list", ...part.split(" ")]);
}

/** Runs a script of the shell, which has the further words as its own. */
export async function runScript(
  network: NetworkPath,
  [script, ...words]: Command,
  input?: string,
): Promise<string> {
  return runIn(network, ["sh", "-c", script, "sh", ...words], input);
}

async function runIn(network: NetworkPath, command: Command, input = ""): Promise<string> {
  return run([...enterCommand(network), ...command], { input });
}

async function run(
  [file = "", ...words]: readonly string[],
  options: { readonly input: string; readonly cwd?: string },
): Promise<string> {
  return runProgram([file, ...words], options);
}

/** A file of the kernel as this namespace sees it. */
async function readIn(network: NetworkPath, path: string): Promise<string> {
  return network === undefined ? (readKernelFile(path) ?? "") : runIn(network, ["cat", path]);
}

function enterCommand(network: NetworkPath): readonly string[] {
  return network === undefined ? [] : ["nsenter", `--net=${network}`, "--"];
}
