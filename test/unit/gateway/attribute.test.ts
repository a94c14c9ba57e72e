/** File URLs without an address belong to the sandbox whose token made their signature. */

import { expect, test } from "vitest";
import { findSignedSandbox } from "../../../src/gateway/signed-file-url.ts";
import { closedEndpoint } from "../../support/endpoint.ts";

/** Pinned by the wire: token, path and user give exactly these signatures. */
const SECURED = closedEndpoint({ sandboxId: "ia", accessToken: "tok-0123456789abcdef" });
const READ = "v1_BqkD+GwCBruEqfGWmmJawEMQ27evkRXIVYFgfQ3fpDs";
const WRITE = "v1_ugBgJqE9SZBkK94rzZAwPzEMnz82PXAefoHM4iRGT90";
const OTHER = closedEndpoint({ sandboxId: "ib", accessToken: "another" });
const OPEN = closedEndpoint({ sandboxId: "ic" });
const NO_SANDBOX =
  "no sandbox is named: send E2b-Sandbox-Id and E2b-Sandbox-Port, or use a signed file URL";

function read(query: Record<string, string>): string {
  return `/files?${new URLSearchParams(query).toString()}`;
}

const readUrl = read({ path: "/home/user/a b.txt", signature: READ });
const writeUrl = read({
  path: "notes.txt",
  username: "root",
  signature: WRITE,
  signature_expiration: "1893456000",
});

test.for([
  { name: "a read", method: "GET", url: readUrl, candidates: [OTHER, SECURED], found: SECURED },
  { name: "a write", method: "POST", url: writeUrl, candidates: [OPEN, SECURED], found: SECURED },
  {
    name: "no signature and one open sandbox",
    method: "GET",
    url: "/files?path=a",
    candidates: [SECURED, OPEN],
    found: OPEN,
  },
])("$name finds its sandbox", ({ method, url, candidates, found }) => {
  expect(findSignedSandbox({ method, url }, candidates)).toBe(found);
});

const refused = (code: number, message: string) => ({ status: code, body: { message, code } });

test.for([
  {
    name: "a signature of a sandbox that is gone",
    method: "GET",
    url: readUrl,
    candidates: [OTHER, OPEN],
    expected: refused(401, "invalid signature"),
  },
  {
    name: "a read signature used to write",
    method: "POST",
    url: readUrl,
    candidates: [SECURED],
    expected: refused(401, "invalid signature"),
  },
  {
    name: "another path",
    method: "GET",
    url: read({ path: "/etc/passwd", signature: READ }),
    candidates: [SECURED],
    expected: refused(401, "invalid signature"),
  },
  {
    name: "no signature and no open sandbox",
    method: "GET",
    url: "/files?path=a",
    candidates: [SECURED],
    expected: refused(400, NO_SANDBOX),
  },
  {
    name: "no signature and two open sandboxes",
    method: "GET",
    url: "/files?path=a",
    candidates: [OPEN, closedEndpoint()],
    expected: refused(400, NO_SANDBOX),
  },
  {
    name: "an RPC",
    method: "POST",
    url: "/process.Process/List",
    candidates: [OPEN],
    expected: refused(400, NO_SANDBOX),
  },
  {
    name: "a parameter given twice",
    method: "GET",
    url: `${readUrl}&path=/etc/passwd`,
    candidates: [SECURED],
    expected: refused(400, "query parameter path is given twice"),
  },
  {
    name: "an expiration that is no number",
    method: "GET",
    url: `${readUrl}&signature_expiration=1e9`,
    candidates: [SECURED],
    expected: refused(400, "Invalid format for parameter signature_expiration"),
  },
])("$name is refused", ({ method, url, candidates, expected }) => {
  expect(findSignedSandbox({ method, url }, candidates)).toEqual(expected);
});
