/**
 * A machine with a container of another program behind a bridge, and one beyond its outer link; and
 * datagrams between them.
 */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { endChild } from "../end-child.ts";
import { makeTempFolder } from "../temp-folder.ts";
import { makeNetwork, within } from "./router-parts.ts";

export const UPLINK = { slot: 1, resolvers: [], hosts: [] };
export const [LINK, FAR, BOX] = ["192.0.2.1", "192.0.2.2", "172.18.0.2"];

/** A machine with a container of another program behind a bridge, and one beyond its outer link. */
export async function openForwardingMachine() {
  await using parts = new AsyncDisposableStack();
  const folder = parts.use(await makeTempFolder());
  const network = async (name: string) =>
    parts.use(await makeNetwork(join(folder.path, name))).path;
  const [machine, far, box] = [
    await network("machine"),
    await network("far"),
    await network("box"),
  ];
  const router = await network("router");
  // Addresses that are looked for elsewhere first cannot be used for a second or two.
  for (const one of [machine, far, box]) {
    await within(one, "sysctl -q net.ipv6.conf.default.accept_dad=0");
  }
  await within(
    machine,
    `sysctl -q net.ipv4.ip_forward=0 && ip link set lo up
ip link add one type veth peer name far netns ${far} && ip link set one up
ip addr add ${LINK}/24 dev one && ip addr add 2001:db8:1::1/64 dev one nodad
ip link add bridge type veth peer name eth0 netns ${box} && ip link set bridge up
ip addr add 172.18.0.1/24 dev bridge && ip addr add 2001:db8:2::1/64 dev bridge nodad
ip route add default via ${FAR}`,
  );
  await within(
    far,
    `ip link set far up && ip addr add ${FAR}/24 dev far && ip addr add 2001:db8:1::2/64 dev far nodad
ip -6 route add 2001:db8:2::/64 via 2001:db8:1::1 && ip route add 172.18.0.0/24 via ${LINK}`,
  );
  await within(
    box,
    `ip link set eth0 up && ip addr add ${BOX}/24 dev eth0
ip addr add 2001:db8:2::2/64 dev eth0 nodad
ip route add default via 172.18.0.1 && ip -6 route add default via 2001:db8:2::1`,
  );
  const open = parts.move();
  return {
    machine,
    far,
    box,
    router,
    /** What a container engine does at its start. */
    publish: async () =>
      within(
        machine,
        `sysctl -q net.ipv4.ip_forward=1
nft -f - <<'END'
table ip engine {
  chain in { type nat hook prerouting priority dstnat; ip daddr ${LINK} udp dport 8080 dnat to ${BOX}:53; }
  chain out { type nat hook postrouting priority srcnat; ip saddr 172.18.0.0/24 oifname "one" masquerade; }
}
END`,
      ),
    forwards: async () =>
      (await within(machine, "cat /proc/sys/net/ipv4/conf/one/forwarding")).trim(),
    [Symbol.asyncDispose]: async () => open.disposeAsync(),
  };
}

/** Says that it listens, and answers each datagram, of either family. */
const SERVER = `import socket
one = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
one.bind(("::", 53))
print(flush=True)
while True:
    data, peer = one.recvfrom(9)
    one.sendto(data, peer)`;
/** Sends again, because a neighbour may not be known yet. */
const client = (address: string, port: number) => `import socket
family = socket.AF_INET6 if ":" in "${address}" else socket.AF_INET
one = socket.socket(family, socket.SOCK_DGRAM)
one.settimeout(0.2)
for _ in range(10):
    one.sendto(b"hello", ("${address}", ${port}))
    try:
        print(one.recv(9).decode())
        break
    except TimeoutError: pass`;

/** Whether a datagram gets there, and its answer back. */
export async function isAnswered(way: {
  readonly from: string;
  readonly by: string;
  readonly to: string;
  readonly port?: number;
}): Promise<boolean> {
  const server = spawn("nsenter", [`--net=${way.by}`, "python3", "-c", SERVER]);
  try {
    await once(server.stdout, "data");
    const said = await within(way.from, `python3 -c '${client(way.to, way.port ?? 53)}'`);
    return said === "hello\n";
  } finally {
    await endChild(server);
  }
}
