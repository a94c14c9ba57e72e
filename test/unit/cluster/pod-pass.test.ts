/** Passes into Pods: what is signed counts, for one Pod and one target. */

import { createPublicKey, randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { deriveSecrets } from "../../../src/cluster/seed.ts";
import { makePass, readPass, type PassSubject } from "../../../src/wire/pod-listener.ts";

const { passKey } = deriveSecrets(Buffer.alloc(32, 1));
const publicKey = createPublicKey(passKey);
const SUBJECT: PassSubject = {
  podName: "iabc",
  target: "/control",
  atMs: 1_795_000_000_000,
  nonce: "0".repeat(32),
};
const pass = makePass(SUBJECT, passKey);

test("a pass is read by the public key of the fronts", () => {
  expect(readPass(pass, SUBJECT, publicKey)).toEqual(SUBJECT);
});

test.for([
  { name: "another Pod", given: pass, subject: { ...SUBJECT, podName: "iabd" } },
  { name: "another target", given: pass, subject: { ...SUBJECT, target: "/public" as const } },
  { name: "a later time", given: pass.replace("1795", "1796"), subject: SUBJECT },
  { name: "another nonce", given: pass.replace(".0", ".1"), subject: SUBJECT },
  { name: "a changed signature", given: flip(pass), subject: SUBJECT },
  { name: "no signature", given: pass.split(".").slice(0, 2).join("."), subject: SUBJECT },
  { name: "nothing", given: "", subject: SUBJECT },
  { name: "more behind it", given: `${pass}.x`, subject: SUBJECT },
])("$name makes it worthless", ({ given, subject }) => {
  expect(readPass(given, subject, publicKey)).toBeUndefined();
});

test("the key of another seed signs nothing that counts", () => {
  const other = deriveSecrets(randomBytes(32)).passKey;
  expect(readPass(makePass(SUBJECT, other), SUBJECT, publicKey)).toBeUndefined();
});

function flip(text: string): string {
  const at = text.length - 10;
  return text.slice(0, at) + (text[at] === "A" ? "B" : "A") + text.slice(at + 1);
}
