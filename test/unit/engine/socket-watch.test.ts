/** What sockets of a container hold uncounted, as the tables of the kernel tell it. */

import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createSocketWatch, heldBySockets } from "../../../src/engine/oci/socket-watch.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const SOCKET_BYTES = 4096;

const NETLINK = `sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode
00000000f13d5acc 0   2397876080 00000000 8355584  0        0     2        1        10157716
000000003aad8d39 0   0          00000000 0        0        0     2        0        10159330
`;
const IPV4 = `   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
    8: 00000000:A7D5 00000000:0000 07 000102B8:00801840 00:00000000 00000000  1000        0 10893154 2 00000000873bcc7f 0
`;
const IPV6 = `  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
    0: 00000000000000000000000000000000:3680 00000000000000000000000000000000:0000 07 00000010:00000001 00:00000000 00000000  1000        0 10400852 2 000000004b5d3774 162
`;

const TCP = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:52D0 00000000:0000 0A 00000000:00000003 00:00000000 00000000     0        0 2510810 1 000000006de3c206 100 0 0 10 0
   1: 0100007F:52D0 0100007F:D4D0 08 00000000:0000EA60 00:00000000 00000000     0        0 0 1 000000006de3c207 20 4 1 10 -1
   2: 0100007F:52D0 0100007F:D4D1 01 00000000:00000010 00:00000000 00000000     0        0 0 1 000000006de3c208 20 4 1 10 -1
   3: 0100007F:52D0 0100007F:D4D2 01 00000000:00000100 00:00000000 00000000     0        0 2510811 1 000000006de3c209 20 4 1 10 -1
   4: 0100007F:D4D4 0100007F:52D0 06 00000000:00000000 03:00001234 00000000     0        0 0 3 000000006de3c20a
`;

/** A folder as `/proc/PID/net`. */
async function heldIn(tables: Readonly<Record<string, string>>): Promise<number> {
  await using folder = await makeTempFolder();
  const path = join(folder.path, "net");
  await mkdir(path);
  for (const [name, text] of Object.entries(tables)) await writeFile(join(path, name), text);
  return heldBySockets(path);
}

test.for([
  ["nothing of a process that is gone", {}, 0],
  ["each socket", { sockstat: "sockets: used 3\nTCP: inuse 0\n" }, 3 * SOCKET_BYTES],
  ["answers of the kernel that nobody reads", { netlink: NETLINK }, 8_355_584],
  ["echoes, and those to be sent", { icmp: IPV4 }, 0x1_02_b8 + 0x80_18_40],
  ["the same of IPv6", { icmp6: IPV6 }, 17],
  [
    "of UDP what is to be sent: what it received is counted",
    { udp: IPV4, udp6: IPV6 },
    0x1_02_b8 + 16,
  ],
  ["of TCP what came before it was accepted", { tcp: TCP, tcp6: TCP }, 2 * (60_000 + 16)],
  [
    "each connection that waits, which is no socket yet",
    { sockstat: "sockets: used 2\nTCP: inuse 4\n", sockstat6: "TCP6: inuse 5\n" },
    9 * SOCKET_BYTES,
  ],
] as const)("%s", async ([, tables, bytes]) => {
  expect(await heldIn(tables)).toBe(bytes);
});

test("tables of very many sockets are not read", async () => {
  const held = await heldIn({ sockstat: "sockets: used 100000\n", netlink: NETLINK });
  expect(held).toBe(100_000 * SOCKET_BYTES);
});

test("tables of no sockets are not read", async () => {
  const held = await heldIn({ sockstat: "sockets: used 0\n", netlink: NETLINK });
  expect(held).toBe(0);
});

test("a look that fails ends nothing, and the next one comes", async () => {
  const looks = Promise.withResolvers<void>();
  let count = 0;
  const watch = createSocketWatch(() => {
    count += 1;
    if (count === 2) looks.resolve();
    throw new Error("no descriptor");
  });
  let ends = 0;
  using _ = watch.add({ pid: () => 1, end: () => (ends += 1) });
  await looks.promise;
  expect(ends).toBe(0);
});
