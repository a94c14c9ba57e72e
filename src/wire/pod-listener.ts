/**
 * How a front enters a sandbox that is a Pod: one TCP port, whose connections begin with an upgrade
 * request that carries a pass. A pass is signed by a key that only fronts have, for one Pod, one
 * target and one use; a Pod knows the public key alone, so nothing in it can make one.
 */

import { sign, verify, type KeyObject } from "node:crypto";

export const POD_PORT = 49_982;
export const PASS_HEADER = "x-sandbox-mcp-pass";
export const POD_PROTOCOL = "sandbox-mcp";
/** After the changes of a sandbox: how many entries no layer can say, and how many changed while they were read. */
export const CHANGES_TRAILER = "x-sandbox-mcp-changes";
/** Paths in a Pod that are no part of its snapshots: what is mounted in each, and what is the daemon's. */
export const DAEMON_PATHS: readonly string[] = [
  "dev",
  "proc",
  "sys",
  "run/e2b",
  "run/sandbox-mcp",
  "run/sandbox-mcp.baseline",
  "run/sandbox-mcp.baseline.part",
  "run/sandbox-mcp.secret",
];
/** In the command of a daemon that keeps what its image contained. */
export const BASELINE_WORD = "baseline";

/** Where a connection leads: to the daemon's two servers. */
export const POD_TARGETS = ["/public", "/control"] as const;

export type PodTarget = (typeof POD_TARGETS)[number];

/** Clocks of fronts and nodes may differ by this; a used pass is remembered for as long. */
export const MAX_SKEW_MS = 300_000;

/** What a pass is for. */
export interface PassSubject {
  readonly podName: string;
  readonly target: PodTarget;
  readonly atMs: number;
  /** Thirty-two hex digits. */
  readonly nonce: string;
}

const PASS_PATTERN = /^([0-9]{1,15})\.([0-9a-f]{32})\.([A-Za-z0-9_-]{86})$/;

export function makePass(subject: PassSubject, key: KeyObject): string {
  const signature = sign(null, textOf(subject), key).toString("base64url");
  return `${subject.atMs}.${subject.nonce}.${signature}`;
}

/** The subject of a pass that the key of the fronts has signed; undefined for any other text. */
export function readPass(
  text: string,
  { podName, target }: Pick<PassSubject, "podName" | "target">,
  key: KeyObject,
): PassSubject | undefined {
  const [, atMs = "", nonce = "", signature = ""] = PASS_PATTERN.exec(text) ?? [];
  if (nonce === "") return undefined;
  const subject = { podName, target, atMs: Number(atMs), nonce };
  const isSigned = verify(null, textOf(subject), key, Buffer.from(signature, "base64url"));
  return isSigned ? subject : undefined;
}

function textOf({ podName, target, atMs, nonce }: PassSubject): Buffer {
  return Buffer.from(`sandbox-mcp pass 1\n${podName}\n${target}\n${atMs}\n${nonce}`, "utf8");
}
