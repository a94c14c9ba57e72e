/** Rules of egress as a NetworkPolicy: what it opens, and what no rule opens. */

import { expect, test } from "vitest";
import {
  planEgress,
  toNetworkPolicy,
  type EgressSettings,
} from "../../../src/cluster/egress-policy.ts";
import { BLOCKED_NETWORKS } from "../../../src/engine/network/egress.ts";

const SETTINGS: EgressSettings = { denied: ["203.0.113.7", "10.0.0.0/8"], nameServers: [] };
const DENIED = [...BLOCKED_NETWORKS, "203.0.113.7/32"];
const OWNER = { name: "i1", uid: "u" };

function egressOf(
  network: { allowOut?: string[]; denyOut?: string[] },
  allowsInternet?: boolean,
  settings = SETTINGS,
) {
  const own = planEgress(settings, { network, allowsInternet });
  if (own === undefined) return "as all others";
  const policy = Object(toNetworkPolicy(OWNER, own, settings) ?? {});
  return policy.spec?.egress ?? "nothing";
}

const block = (cidr: string, except?: string[]) => ({
  ipBlock: { cidr, ...(except && { except }) },
});

const close = (allowOut: string[]) => egressOf({ allowOut, denyOut: ["0.0.0.0/0"] });

test("without rules a sandbox reaches what all others reach, also with what is open anyway", () => {
  expect(egressOf({})).toBe("as all others");
  expect(egressOf({}, true)).toBe("as all others");
  expect(egressOf({ allowOut: ["192.0.2.1"] })).toBe("as all others");
});

test("without internet access it reaches nothing, but for what is allowed", () => {
  expect(egressOf({}, false)).toBe("nothing");
  expect(egressOf({ denyOut: ["0.0.0.0/0"] })).toBe("nothing");
  expect(egressOf({ allowOut: ["192.0.2.77/24"] }, false)).toEqual([
    { to: [block("192.0.2.0/24")] },
  ]);
});

test("what is denied is an exception, and what is allowed is added to it", () => {
  const [{ to }, ...more] = egressOf({ denyOut: ["198.51.100.0/24"], allowOut: ["198.51.100.1"] });
  expect(more).toEqual([]);
  expect(to).toEqual([
    block("0.0.0.0/0", expect.arrayContaining([...DENIED, "198.51.100.0/24"])),
    block("198.51.100.1/32"),
  ]);
  expect(new Set(to[0].ipBlock.except).size).toBe(to[0].ipBlock.except.length);
});

test("no rule opens what the operator or the service denies", () => {
  expect(close(["10.1.2.3", "169.254.169.254", "203.0.113.7", "127.0.0.0/8"])).toBe("nothing");
  expect(close(["203.0.113.0/24"])).toEqual([
    { to: [block("203.0.113.0/24", ["203.0.113.7/32"])] },
  ]);
  expect(close(["8.0.0.0/6"])).toEqual([{ to: [block("8.0.0.0/6", ["10.0.0.0/8"])] }]);
  const [{ to }] = close(["0.0.0.0/0"]);
  expect(to).toEqual([block("0.0.0.0/0", expect.arrayContaining(DENIED))]);
});

test("name servers are reached on their port where anything is", () => {
  const settings = { ...SETTINGS, nameServers: ["10.96.0.10"] };
  expect(egressOf({}, false, settings)).toBe("nothing");
  expect(egressOf({ allowOut: ["192.0.2.1"] }, false, settings)).toEqual([
    { to: [block("192.0.2.1/32")] },
    {
      to: [block("10.96.0.10/32")],
      ports: [
        { protocol: "UDP", port: 53 },
        { protocol: "TCP", port: 53 },
      ],
    },
  ]);
});

test("IPv6 stays shut, and an entry for it changes nothing", () => {
  expect(egressOf({ allowOut: ["2001:db8::/32"] }, false)).toBe("nothing");
});

test("names are refused, and all rules where they are not offered", () => {
  const named = { allowOut: ["example.com"], denyOut: ["0.0.0.0/0"] };
  expect(() => egressOf(named)).toThrow(/cannot apply rules of egress by host name/);
  const given = { network: undefined, allowsInternet: false };
  expect(() => planEgress(undefined, given)).toThrow(/cannot apply rules of egress without/);
});

test("the policy selects the Pod of its sandbox alone, and goes with its record", () => {
  const own = planEgress(SETTINGS, { network: { denyOut: ["192.0.2.1"] }, allowsInternet: true });
  expect(own && toNetworkPolicy(OWNER, own, SETTINGS)).toMatchObject({
    kind: "NetworkPolicy",
    metadata: { name: "i1", ownerReferences: [{ kind: "ConfigMap", name: "i1", uid: "u" }] },
    spec: {
      podSelector: { matchLabels: { "sandbox-mcp.io/sandbox": "i1" } },
      policyTypes: ["Egress"],
    },
  });
});
