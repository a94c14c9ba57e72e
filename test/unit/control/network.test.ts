/** The network object of a create request. */

import { expect, test } from "vitest";
import { checkNetwork } from "../../../src/control/network.ts";
import type { Network } from "../../../src/wire/control.ts";

const ALL = "0.0.0.0/0";

test.for<Network>([
  {},
  { denyOut: [ALL, "10.0.0.1", "2001:db8::/32"] },
  { allowOut: [ALL], denyOut: [] },
  { allowOut: ["example.com", "*.example.com", "*", "1.1.1.1"], denyOut: [ALL] },
  { maskRequestHost: "localhost:${PORT}" },
  { maskRequestHost: "example.com", allowPublicTraffic: true },
  { httpsPorts: [443, 65_535] },
])("%j is accepted", (network) => {
  expect(checkNetwork(network)).toBeUndefined();
});

test.for<{ network: Network; code: string; message: string }>([
  {
    network: { denyOut: ["example.com"] },
    code: "invalid_argument",
    message: "invalid denied CIDR example.com",
  },
  {
    network: { denyOut: ["10.0.0.0/33"] },
    code: "invalid_argument",
    message: "invalid denied CIDR 10.0.0.0/33",
  },
  {
    network: { allowOut: ["0.0.0.0"] },
    code: "invalid_argument",
    message: "invalid allowed address 0.0.0.0",
  },
  {
    network: { allowOut: ["0.0.0.0/8"] },
    code: "invalid_argument",
    message: "invalid allowed address 0.0.0.0/8",
  },
  {
    network: { allowOut: ["example.com"] },
    code: "invalid_argument",
    message:
      "When specifying allowed domains in allow out, you must include 'ALL_TRAFFIC' in deny out to block all other traffic.",
  },
  {
    network: { maskRequestHost: "a b" },
    code: "invalid_argument",
    message: "mask request host is not valid: a b",
  },
  {
    network: { maskRequestHost: "exämple.com" },
    code: "invalid_argument",
    message: "mask request host 'exämple.com' is not ASCII. Please use ASCII characters only.",
  },
  {
    network: { rules: {} },
    code: "invalid_argument",
    message: "Network transform rules are not available for your team.",
  },
  {
    network: { egressProxy: { address: "a:1" } },
    code: "permission_denied",
    message: "Egress proxy (network.egressProxy) is not enabled for this team.",
  },
  {
    network: { httpsPorts: Array.from({ length: 129 }, (_, index) => index + 1) },
    code: "invalid_argument",
    message: "HTTPS ports can have at most 128 entries.",
  },
  {
    network: { httpsPorts: [443, 0] },
    code: "invalid_argument",
    message: "HTTPS port must be between 1 and 65535: 0",
  },
  {
    network: { httpsPorts: [443, 8443, 443] },
    code: "invalid_argument",
    message: "HTTPS port 443 is specified more than once.",
  },
  {
    network: { httpsPorts: [49_983] },
    code: "invalid_argument",
    message: "HTTPS backend routing is not supported for reserved port 49983",
  },
])("$network is refused: $code", ({ network, code, message }) => {
  expect(() => checkNetwork(network)).toThrow(expect.objectContaining({ code, message }));
});
