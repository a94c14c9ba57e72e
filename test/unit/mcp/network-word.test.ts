/** What a reply says of the network of a sandbox is what its programs can reach. */

import { expect, test } from "vitest";
import { networkWord } from "../../../src/mcp/replies/facts.ts";
import { toEgress } from "../../../src/sandboxes/egress.ts";

const ALL = "0.0.0.0/0";
const ADDRESS = "203.0.113.5";

test.for([
  { isAllowed: true, network: undefined, word: "internet" },
  { isAllowed: true, network: { allowOut: [], denyOut: [] }, word: "internet" },
  { isAllowed: true, network: { allowOut: [ADDRESS] }, word: "internet" },
  { isAllowed: true, network: { denyOut: [ADDRESS] }, word: "filtered" },
  { isAllowed: true, network: { denyOut: [ALL] }, word: "none" },
  { isAllowed: true, network: { allowOut: ["pypi.org"], denyOut: [ALL] }, word: "filtered" },
  { isAllowed: false, network: undefined, word: "none" },
  { isAllowed: false, network: { allowOut: [] }, word: "none" },
  { isAllowed: false, network: { allowOut: [ADDRESS] }, word: "filtered" },
] as const)("$network with internet $isAllowed is $word", ({ isAllowed, network, word }) => {
  const rules = {
    allowOut: [...(network?.allowOut ?? [])],
    denyOut: [...(network?.denyOut ?? [])],
  };
  expect(networkWord(isAllowed, network && rules)).toBe(word);
  const egress = toEgress({ allowsInternet: isAllowed, ...rules });
  const isOpen = egress !== "none" && egress.deny.length === 0;
  expect([egress === "none", isOpen]).toEqual([word === "none", word === "internet"]);
});
