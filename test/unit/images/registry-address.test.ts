/** Requests cannot send the service to registries in its own network. */

import { describe, expect, test } from "vitest";
import { parseReference, toSource } from "../../../src/images/reference.ts";
import {
  behindNat64,
  findPublicAddresses,
  isPublic,
  requirePublicRegistry,
} from "../../../src/images/registry-address.ts";
import { registryMirrors } from "../../../src/setting-values.ts";

const REFUSED = { code: "permission_denied" };

describe("a registry in the network of the service is refused", () => {
  test.for([
    "localhost:5000/a",
    "127.0.0.1:5000/a",
    "127.8.9.1:80/a",
    "10.0.0.1:443/a",
    "169.254.169.254/latest/meta-data",
    "192.168.1.1:8080/a",
    "[::1]:5000/a",
    "[fe80::1]:5000/a",
    "[::ffff:127.0.0.1]:5000/a",
    "[2002:7f00:1::]:5000/a",
  ])("%s", async (text) => {
    // What is no reference at all needs no address.
    const source = (() => {
      try {
        return toSource(parseReference(text), []);
      } catch {
        return {
          host: text.split("/", 1)[0],
          isMirrored: false,
          name: "",
          address: "",
          isPlain: false,
        };
      }
    })();
    await expect(requirePublicRegistry(source)).rejects.toMatchObject(REFUSED);
  });
});

test("unless the owner of the service named it as a mirror", async () => {
  const mirrors = registryMirrors.parse("docker.io=http://127.0.0.1:5000");
  await requirePublicRegistry(toSource(parseReference("debian:12"), mirrors));
  await expect(
    requirePublicRegistry(toSource(parseReference("127.0.0.1:5000/library/debian"), mirrors)),
  ).rejects.toMatchObject(REFUSED);
});

test.for([
  ["1.1.1.1", true],
  ["2606:4700::1111", true],
  ["172.16.0.1", false],
  ["172.32.0.1", true],
  ["168.63.129.16", false],
  ["168.63.129.17", true],
  ["100.100.100.200", false],
  ["192.0.0.192", false],
  ["fd00:ec2::254", false],
  ["fd00::1", false],
] as const)("%s is of the internet: %s", ([address, expected]) => {
  expect(isPublic(address)).toBe(expected);
});

test.for([
  ["64:ff9b::8c52:7904", "140.82.121.4"],
  ["64:ff9b::7f00:1", "127.0.0.1"],
  ["64:ff9b::1", "0.0.0.1"],
  ["64:ff9b:1::8c52:7904", "64:ff9b:1::8c52:7904"],
  ["2606:4700::1111", "2606:4700::1111"],
  ["140.82.121.4", "140.82.121.4"],
] as const)("%s leads to %s", ([address, reached]) => {
  expect(behindNat64(address)).toBe(reached);
});

test("an address that is translated is refused as the one behind it", async () => {
  expect(await findPublicAddresses("64:ff9b::8c52:7904")).toEqual(["64:ff9b::8c52:7904"]);
  for (const address of ["64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b::a00:1"]) {
    await expect(findPublicAddresses(address)).rejects.toMatchObject(REFUSED);
  }
});
