/** Which hosts are reached without the proxy of the machine. */

import { expect, test } from "vitest";
import { isExcepted } from "../../src/common/outbound-proxy.ts";

test.for([
  ["", "api.e2b.app", false],
  ["", "localhost", true],
  ["", "127.0.0.1", true],
  ["", "49983-i1.sandbox.localhost", true],
  ["", "[::1]", true],
  ["*", "api.e2b.app", true],
  ["example.com, e2b.app", "api.e2b.app", true],
  ["example.com e2b.app", "E2B.app", true],
  [".e2b.app", "api.e2b.app", true],
  ["*.e2b.app", "api.e2b.app", true],
  ["b.app", "api.e2b.app", false],
  ["api.e2b.app:443", "api.e2b.app", true],
  ["api.e2b.app:8443", "api.e2b.app", false],
  ["10.0.0.0/8", "10.1.2.3", true],
  ["10.0.0.0/8", "11.1.2.3", false],
  ["10.0.0.0/99,fd00::/8,x/y", "fd00::1", true],
  ["10.1.2.3", "10.1.2.3", true],
  ["[fd00::1]:443", "[fd00::1]", true],
  ["fd00::1", "fd00::1", true],
  ["2.3", "10.1.2.3", false],
] as const)("with %j the host %s is excepted: %s", ([except, host, isDirect]) => {
  expect(isExcepted(except, host, 443)).toBe(isDirect);
});
