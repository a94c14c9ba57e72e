/** File URLs that name no sandbox: whose signature they carry says whose they are. */

import type { IncomingMessage } from "node:http";
import type { Endpoint } from "../sandboxes/run.ts";
import { MESSAGES } from "../wire/messages.ts";
import { equalSecrets, parseExpiration, signFile } from "../wire/signature.ts";
import { badSignature, unattributed, type Refusal } from "./refusal.ts";

/** Signatures computed for one request; more sandboxes than this need an address. */
const MAX_CANDIDATES = 1024;

/** The status of a signature that nobody's token made. */
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
  if (signatures.length === 0) return onlyOpen(candidates);
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

/** Without a signature only an open sandbox can be meant, and only if there is but one. */
function onlyOpen<Candidate extends Pick<Endpoint, "accessToken">>(
  candidates: readonly Candidate[],
): Candidate | Refusal {
  const open = candidates.filter(({ accessToken }) => accessToken === undefined);
  const [only] = open;
  return open.length === 1 && only !== undefined ? only : unattributed(NO_SANDBOX);
}
