/** Certificates of a local authority, as Node reads them and as two ends of a connection judge them. */

import { X509Certificate } from "node:crypto";
import { expect, test } from "vitest";
import {
  describeAuthority,
  isPrivateKey,
  issueServerCertificate,
  makeAuthority,
  newPrivateKey,
} from "../../../src/listener/certificates.ts";

const DOMAIN = "sandbox.localhost";
const NOW_MS = Date.now();
const DAY_MS = 86_400_000;

function newAuthority(domain = DOMAIN, nowMs = NOW_MS) {
  const key = newPrivateKey();
  return { key, certificate: makeAuthority({ domain, key, before: undefined, nowMs }) };
}

test("an authority signs for servers alone and ends after five years", () => {
  const { certificate, key } = newAuthority();
  const read = new X509Certificate(certificate);
  expect([read.ca, read.checkIssued(read), read.keyUsage]).toEqual([
    true,
    true,
    ["1.3.6.1.5.5.7.3.1"],
  ]);
  expect(read.verify(read.publicKey)).toBe(true);
  expect(read.subject).toMatch(/^CN=sandbox-mcp local authority [0-9a-f]{8}$/);
  const endAtMs = describeAuthority({ certificate, key })?.endAtMs ?? 0;
  expect(Math.abs(endAtMs - NOW_MS - 5 * 365 * DAY_MS)).toBeLessThan(1001);
});

test("a certificate is for the domain, names below it and loopback", () => {
  const authority = newAuthority();
  const issued = issueServerCertificate(authority, DOMAIN, NOW_MS);
  const read = new X509Certificate(issued.certificate);
  const names = [DOMAIN, `api.${DOMAIN}`, `49983-iabc.${DOMAIN}`];
  expect(names.map((name) => read.checkHost(name) !== undefined)).toEqual([true, true, true]);
  expect(read.checkHost(`a.b.${DOMAIN}`)).toBeUndefined();
  expect(["127.0.0.1", "::1"].map((name) => read.checkIP(name))).toEqual(["127.0.0.1", "::1"]);
  expect(read.ca).toBe(false);
  expect(read.verify(new X509Certificate(authority.certificate).publicKey)).toBe(true);
  expect(issued.endAtMs).toBe(NOW_MS + 90 * DAY_MS);
});

test("a certificate never outlives its authority", () => {
  const authority = newAuthority(DOMAIN, NOW_MS - 5 * 365 * DAY_MS + 7 * DAY_MS);
  const { endAtMs } = issueServerCertificate(authority, DOMAIN, NOW_MS);
  expect(endAtMs).toBeLessThanOrEqual(NOW_MS + 7 * DAY_MS);
});

test("a renewed authority has name and key of the one before", () => {
  const old = newAuthority();
  const renewed = makeAuthority({
    domain: DOMAIN,
    key: old.key,
    before: old.certificate,
    nowMs: NOW_MS + DAY_MS,
  });
  const [before, after] = [new X509Certificate(old.certificate), new X509Certificate(renewed)];
  expect(after.subject).toBe(before.subject);
  expect(after.serialNumber).not.toBe(before.serialNumber);
  const leaf = new X509Certificate(
    issueServerCertificate({ ...old, certificate: renewed }, DOMAIN, NOW_MS).certificate,
  );
  expect([leaf.checkIssued(before), leaf.verify(before.publicKey)]).toEqual([true, true]);
});

test("another key's certificate, a server's and a text are no authority", () => {
  const authority = newAuthority();
  const other = newAuthority();
  const server = issueServerCertificate(authority, DOMAIN, NOW_MS);
  expect(describeAuthority({ ...authority, key: other.key })).toBeUndefined();
  expect(describeAuthority(server)).toBeUndefined();
  expect(describeAuthority({ certificate: "text", key: authority.key })).toBeUndefined();
  expect([isPrivateKey(authority.key), isPrivateKey("text"), isPrivateKey("")]).toEqual([
    true,
    false,
    false,
  ]);
});
