/** File URLs that name no sandbox: whose signature they carry says whose they are. */

import type { IncomingMessage } from "node:http";
import type { Endpoint } from "../sandboxes/run.ts";
import { MESSAGES } from "../wire/messages.ts";
import { equalSecrets, parseExpiration, signFile } from "../wire/signature.ts";
import { badSignature, unattributed, type Refusal } from "./refusal.ts";

/** Signatures computed for one request; more sandboxes than this need an address. */
const MAX_CANDIDATES = 1024;

const NO_SANDBOX =
  "no sandbox is named: send E2b-Sandbox-Id and E2b-Sandbox-Port, or use a signed file URL";

/** The sandbox that a request without an address belongs to, or why there is none. */
export function attribute<Candidate extends Pick<Endpoint, "accessToken">>(
  request: Pick<IncomingMessage, "method" | "url">,
  candidates: readonly Candidate[],
): Candidate | Refusal {
  const url = new URL(request.url ?? "/", "http://localhost");
  if (url.pathname !== "/files") return unattributed(NO_SANDBOX);
  const signatures = url.searchParams.getAll("signature");
  if (signatures.length === 0) return onlyOpen(candidates);
  const repeated = ["path", "username", "signature", "signature_expiration"].find(
    (name) => url.searchParams.getAll(name).length > 1,
  );
  if (repeated !== undefined) return unattributed(`query parameter ${repeated} is given twice`);
  const expiration = parseExpiration(url.searchParams.get("signature_expiration"));
  if (expiration === "invalid") {
    return unattributed("Invalid format for parameter signature_expiration");
  }
  const file = {
    path: url.searchParams.get("path") ?? "",
    operation: request.method === "POST" ? ("write" as const) : ("read" as const),
    username: url.searchParams.get("username") ?? "",
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
