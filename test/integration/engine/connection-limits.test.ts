/** What the connections of one container leave in the tables of the machine, which all share. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { routersOf } from "../../../src/engine/network/router-record.ts";
import { createRouters } from "../../../src/engine/network/router.ts";
import { endChild } from "../../support/end-child.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { EVERYTHING, makeNetwork, startConnectable, within } from "../../support/router-parts.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const MAX_CONNECTIONS = 4_096;
const MAX_STARTS_A_SECOND = 100;

const SERVER = `
import resource, socket
resource.setrlimit(resource.RLIMIT_NOFILE, (8192, 8192))
server = socket.create_server(("192.0.2.2", 80), backlog=4096)
print(flush=True)
held = []
while True:
    held = held[-6000:] + [server.accept()[0]]
`;

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

/** A connected container, and a server outside. */
async function openWorld() {
  await using parts = new AsyncDisposableStack();
  const folder = parts.use(await makeTempFolder());
  const outside = parts.use(await makeNetwork(join(folder.path, "outside")));
  const far = parts.use(await makeNetwork(join(folder.path, "far")));
  await within(
    outside.path,
    `ip link add one type veth peer name far netns ${far.path} && ip link set one up
ip addr add 192.0.2.1/24 dev one && ip route add default via 192.0.2.2`,
  );
  await within(far.path, "ip link set far up && ip addr add 192.0.2.2/24 dev far");
  const server = spawn("nsenter", [`--net=${far.path}`, "python3", "-c", SERVER]);
  parts.defer(async () => endChild(server));
  await once(server.stdout, "data");
  const owner = join(folder.path, "s");
  await mkdir(owner);
  const container = parts.use(await startConnectable(join(owner, "i1")));
  const other = parts.use(await startConnectable(join(owner, "i2")));
  const routers = createRouters(PERL_DIRECTORY);
  const disconnect = async () => routers.disconnect(container.directory);
  parts.defer(disconnect);
  parts.defer(async () => routers.disconnect(other.directory));
  const network = {
    path: outside.path,
    program: "/nonexistent",
    perlDirectory: PERL_DIRECTORY,
    resolvers: [],
    changes: 0,
  };
  for (const one of [container, other]) {
    await routers.setEgress({ ...one, outside: network }, EVERYTHING);
  }
  const [router] = await routersOf(owner);
  const ending = parts.move();
  return {
    outside: outside.path,
    router: router?.path ?? "",
    inside: `/proc/${container.record.pid}/ns/net`,
    neighbour: `/proc/${other.record.pid}/ns/net`,
    disconnect,
    [Symbol.asyncDispose]: async () => ending.disposeAsync(),
  };
}

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
  await using world = await openWorld();
  const lost = "stream.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 1)";
  const { opened } = await run(world.inside, client(MAX_CONNECTIONS + 500, lost));
  expect(opened).toBe(MAX_CONNECTIONS);
  expect(await countAt(world.outside)).toBe(MAX_CONNECTIONS);
});

test("connections that have ended are in the way of no other container's", async () => {
  await using world = await openWorld();
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
  await using world = await openWorld();
  await using held = new AsyncDisposableStack();
  for (const network of [world.inside, world.neighbour]) held.use(await hold(network));
  const count = async () => [await countAt(world.router), await countAt(world.outside)];
  const before = await count();
  await world.disconnect();
  expect({ before, after: await count() }).toEqual({ before: [200, 200], after: [100, 100] });
});
