/** What the kernel's table of routes says of this machine's own addresses. */

import { networkInterfaces } from "node:os";
import { expect, test } from "vitest";
import { parseOwnAddresses, readOwnAddresses } from "../../../src/engine/network/own-addresses.ts";

const TABLE = `Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 127.0.0.0/8 2 0 2
        +-- 127.0.0.0/31 1 0 0
           |-- 127.0.0.0
              /8 host LOCAL
           |-- 127.0.0.1
              /32 host LOCAL
        |-- 127.255.255.255
           /32 link BROADCAST
     |-- 198.51.100.0
        /24 link UNICAST
        /25 host LOCAL
     |-- 203.0.113.9
        /32 host LOCAL
     |-- 203.0.113.255
        /32 link BROADCAST
Local:
     |-- 203.0.113.9
        /32 host LOCAL
`;

test("addresses and whole networks are found, each once", () => {
  expect(parseOwnAddresses(TABLE)).toEqual([
    "127.0.0.0/8",
    "127.0.0.1/32",
    "198.51.100.0/25",
    "203.0.113.9/32",
  ]);
});

test("this machine's own addresses are among them", async () => {
  const found = await readOwnAddresses();
  const own = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  const wanted = own
    .filter(({ family }) => family === "IPv4")
    .map(({ address }) => `${address}/32`);
  expect(found).toEqual(expect.arrayContaining(wanted));
});
