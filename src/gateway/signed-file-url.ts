/** Signed URLs of files: which sandbox a signature belongs to, and a bound on wrong ones. */

import { createHash, randomBytes } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { isIPv6 } from "node:net";
import type { Clock } from "../common/clock.ts";
import type { Endpoint } from "../sandboxes/run.ts";
import { MESSAGES } from "../wire/messages.ts";
import { equalSecrets, parseExpiration, signFile } from "../wire/signature.ts";
import { badSignature, unattributed, type Refusal } from "./refusal.ts";

/** Signatures computed for one request; more sandboxes than this need an address. */
const MAX_CANDIDATES = 1024;

/** The status of a signature that no known token made. */
const WRONG = 401;

const NO_SANDBOX =
  "no sandbox is named: send E2b-Sandbox-Id and E2b-Sandbox-Port, or use a signed file URL";

/** The signature of a request for a file, as it is given; undefined for any other request. */
export function signatureOf(request: Pick<IncomingMessage, "url">): string | undefined {
  return queryOfFile(request)?.get("signature") ?? undefined;
}

/** Read as the daemon reads it, which decodes and cleans no path. */
function queryOfFile({ url = "" }: Pick<IncomingMessage, "url">): URLSearchParams | undefined {
  const mark = url.indexOf("?");
  const path = mark === -1 ? url : url.slice(0, mark);
  if (path !== "/files") return undefined;
  return new URLSearchParams(mark === -1 ? "" : url.slice(mark + 1));
}

/** Whether a token did not make the signature of a request that has one. */
export function isWrongSignature(
  request: Pick<IncomingMessage, "method" | "url">,
  accessToken: string,
): boolean {
  const outcome = findSignedSandbox(request, [{ accessToken }]);
  return "status" in outcome && outcome.status === WRONG;
}

/** The sandbox that a request without an address belongs to, or why there is none. */
export function findSignedSandbox<Candidate extends Pick<Endpoint, "accessToken">>(
  request: Pick<IncomingMessage, "method" | "url">,
  candidates: readonly Candidate[],
): Candidate | Refusal {
  const query = queryOfFile(request);
  if (query === undefined) return unattributed(NO_SANDBOX);
  const signatures = query.getAll("signature");
  if (signatures.length === 0) return unattributed(NO_SANDBOX);
  const repeated = ["path", "username", "signature", "signature_expiration"].find(
    (name) => query.getAll(name).length > 1,
  );
  if (repeated !== undefined) return unattributed(`query parameter ${repeated} is given twice`);
  const expiration = parseExpiration(query.get("signature_expiration"));
  if (expiration === "invalid") {
    return unattributed("Invalid format for parameter signature_expiration");
  }
  const file = {
    path: query.get("path") ?? "",
    operation: request.method === "POST" ? ("write" as const) : ("read" as const),
    username: query.get("username") ?? "",
    expiration,
  };
  const [signature = ""] = signatures;
  const matching = candidates
    .slice(0, MAX_CANDIDATES)
    .filter(
      ({ accessToken }) =>
        accessToken !== undefined && equalSecrets(signFile(file, accessToken), signature),
    );
  return matching[0] ?? badSignature(MESSAGES.signatureWrong);
}

/** A file without a signature: only an open sandbox can be meant, and only if there is but one. */
export function findOnlyOpen(
  request: Pick<IncomingMessage, "url">,
  candidates: readonly Endpoint[],
): Endpoint | undefined {
  if (queryOfFile(request)?.has("signature") !== false) return undefined;
  const open = candidates.filter(({ accessToken }) => accessToken === undefined);
  return open.length === 1 ? open[0] : undefined;
}

/** Wrong ones that an address has at once, and how fast they come back. */
const MAX_BURST = 60;
const PER_SECOND = 1;
/** Addresses that are counted; the one that was wrong the longest time ago is forgotten first. */
const MAX_ADDRESSES = 4096;
/** Long enough for a client that waits whole seconds. */
const TURN_MS = 2000;
const TURNS = 32;

/**
 * Wrong signatures, counted for each address. Beyond a bound the signatures of an address are looked
 * at in turns: each one's turn comes by itself, so a right one waits for a minute at most, whatever
 * else comes from there.
 */
export interface SignatureAttempts {
  /** 0 when a signature may be looked at now, else whole seconds until it may. */
  waitSeconds(address: string | undefined, signature: string): number;
  /** Counts one that was looked at and wrong. */
  noteWrong(address: string | undefined): void;
}

interface Count {
  readonly left: number;
  readonly atMs: number;
}

/** Without an address the client is a process of this user, on the private socket: not counted. */
export function createSignatureAttempts(clock: Clock): SignatureAttempts {
  const counts = new Map<string, Count>();
  // A client cannot choose a signature for its turn.
  const salt = randomBytes(16);

  function leftOf(network: string): number {
    const { left, atMs } = counts.get(network) ?? { left: MAX_BURST, atMs: 0 };
    return Math.min(left + ((clock.elapsed() - atMs) / 1000) * PER_SECOND, MAX_BURST);
  }

  function turnOf(signature: string): number {
    return (createHash("sha256").update(salt).update(signature).digest()[0] ?? 0) % TURNS;
  }

  return {
    waitSeconds(address, signature) {
      if (address === undefined || leftOf(toNetwork(address)) >= 1) return 0;
      const nowMs = clock.elapsed();
      const turn = Math.floor(nowMs / TURN_MS);
      const turnsAhead = (turnOf(signature) - (turn % TURNS) + TURNS) % TURNS;
      return turnsAhead === 0 ? 0 : Math.ceil(((turn + turnsAhead) * TURN_MS - nowMs) / 1000);
    },
    noteWrong(address) {
      if (address === undefined) return;
      const network = toNetwork(address);
      const left = Math.max(leftOf(network) - 1, 0);
      counts.delete(network);
      counts.set(network, { left, atMs: clock.elapsed() });
      const [oldest] = counts.keys();
      if (counts.size > MAX_ADDRESSES && oldest !== undefined) counts.delete(oldest);
    },
  };
}

const GROUPS = 8;
const NETWORK_GROUPS = 4;

/** An IPv4 address, or the network of 64 bits that one customer has of IPv6. */
export function toNetwork(address: string): string {
  const mapped = /^::ffff:([0-9.]+)$/i.exec(address)?.[1];
  if (mapped !== undefined || !isIPv6(address)) return mapped ?? address;
  const [bare = ""] = address.toLowerCase().split("%", 1);
  const [head = "", tail] = bare.split("::", 2);
  const first = head === "" ? [] : head.split(":");
  const last = tail === undefined || tail === "" ? [] : tail.split(":");
  const missing = Math.max(GROUPS - first.length - last.length, 0);
  const groups = [...first, ...Array.from({ length: missing }, () => "0"), ...last];
  return groups.slice(0, NETWORK_GROUPS).join(":");
}
