/** File URLs without an address belong to the sandbox whose token made their signature. */

import { IncomingMessage } from "node:http";
import { Socket } from "node:net";
import { expect, test } from "vitest";
import { createSystemClock } from "../../../src/common/clock.ts";
import { authorize } from "../../../src/gateway/authorize.ts";
import {
  createSignatureAttempts,
  findSignedSandbox,
} from "../../../src/gateway/signed-file-url.ts";
import type { Endpoint } from "../../../src/sandboxes/run.ts";
import { closedEndpoint } from "../../support/control/endpoint.ts";

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

/** What a client without a key and without an address is answered. */
async function ask(url: string, endpoints: readonly Endpoint[], isShared: boolean) {
  const request = new IncomingMessage(new Socket());
  Object.assign(request, { method: "GET", url });
  return authorize(request, undefined, {
    sandboxes: {
      locate: () => undefined,
      endpoints: () => [...endpoints],
      stopped: () => [],
      wake: () => expect.unreachable("no request without an address wakes a sandbox"),
    },
    attempts: createSignatureAttempts(createSystemClock()),
    isShared: () => isShared,
  });
}

test.for([
  { name: "the only open sandbox", endpoints: [SECURED, OPEN], isShared: false, isFound: true },
  { name: "no open sandbox", endpoints: [SECURED], isShared: false, isFound: false },
  { name: "one of two", endpoints: [OPEN, closedEndpoint()], isShared: false, isFound: false },
  // Nobody but its team knows the id of a sandbox.
  { name: "one of several teams", endpoints: [OPEN], isShared: true, isFound: false },
])("a file without a signature: $name", async ({ endpoints, isShared, isFound }) => {
  const admission = await ask("/files?path=a", endpoints, isShared);
  expect(admission).toEqual(isFound ? { endpoint: OPEN, port: 49_983 } : refused(400, NO_SANDBOX));
});

test("an RPC or a wrong signature is not for the only open sandbox", async () => {
  expect(await ask("/process.Process/List", [OPEN], false)).toEqual(refused(400, NO_SANDBOX));
  const wrong = await ask("/files?path=a&signature=v1_x", [OPEN], false);
  expect(wrong).toEqual(refused(401, "invalid signature"));
});
