/** What the connections of one container leave in the tables of the machine, which all share. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, test } from "vitest";
import { endChild } from "../../support/end-child.ts";
import { within } from "../../support/network/router-parts.ts";
import { openRouterWorld } from "../../support/network/router-world.ts";

const MAX_CONNECTIONS = 4_096;
const MAX_STARTS_A_SECOND = 100;

/** Says how many connections there were, and for how many seconds. */
const client = (count: number, before: string) => `
import socket, struct, time
began = time.monotonic()
opened = 0
for number in range(${count}):
    stream = socket.socket()
    stream.settimeout(5)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    stream.bind(("0.0.0.0", 10000 + number))
    try:
        stream.connect(("192.0.2.2", 80))
    except OSError:
        break
    opened += 1
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    ${before}
    stream.close()
print(opened, time.monotonic() - began)
`;

async function run(network: string, program: string) {
  const [opened = 0, seconds = 0] = (await within(network, `python3 -c '${program}'`))
    .split(" ")
    .map(Number);
  return { opened, seconds };
}

async function countAt(network: string): Promise<number> {
  return Number(await within(network, "cat /proc/sys/net/netfilter/nf_conntrack_count"));
}

test("connections that end without a word to the outside count as long as the outside keeps them", async () => {
  await using world = await openRouterWorld();
  const lost = "stream.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 1)";
  const { opened } = await run(world.inside, client(MAX_CONNECTIONS + 500, lost));
  expect(opened).toBe(MAX_CONNECTIONS);
  expect(await countAt(world.outside)).toBe(MAX_CONNECTIONS);
});

test("connections that have ended are in the way of no other container's", async () => {
  await using world = await openRouterWorld();
  const awhile = "if time.monotonic() - began > 3: break";
  const { opened, seconds } = await run(world.inside, client(40_000, awhile));
  expect(opened).toBeGreaterThan(0);
  const most = MAX_CONNECTIONS + MAX_STARTS_A_SECOND * seconds + 1;
  expect(await countAt(world.outside)).toBeLessThanOrEqual(most);
});

/** Keeps connections of each kind open until its input ends. */
const HOLDER = `
import socket, sys
held = [socket.create_connection(("192.0.2.2", 80)) for number in range(50)]
for number in range(50):
    held.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    held[-1].sendto(b"x", ("192.0.2.2", 80))
print(flush=True)
sys.stdin.read()
`;

async function hold(network: string) {
  const child = spawn("nsenter", [`--net=${network}`, "python3", "-c", HOLDER]);
  await once(child.stdout, "data");
  return { [Symbol.asyncDispose]: async () => endChild(child) };
}

test("with the link of a container all goes that the machine knows of its connections", async () => {
  await using world = await openRouterWorld();
  await using held = new AsyncDisposableStack();
  for (const network of [world.inside, world.neighbour]) held.use(await hold(network));
  const count = async () => [await countAt(world.router), await countAt(world.outside)];
  const before = await count();
  await world.disconnect();
  expect({ before, after: await count() }).toEqual({ before: [200, 200], after: [100, 100] });
});
