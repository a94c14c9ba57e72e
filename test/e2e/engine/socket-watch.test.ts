/** Sockets that hold what no cgroup counts: while memory is scarce their container ends, no other. */

import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import type { ContainerExit } from "../../../src/engine/engine.ts";
import { readRecord } from "../../../src/engine/oci/container-record.ts";
import { hasOptionLimit } from "../../../src/engine/oci/option-memory.ts";
import { heldBySockets } from "../../../src/engine/oci/socket-watch.ts";
import { baseLayers } from "../../support/base-layer.ts";
import { startOciHost } from "../../support/engine/oci-host.ts";
import { initDaemon, runInside } from "../../support/engine/run-inside.ts";

const HELD_BYTES = 80 * 1024 * 1024;
/** More than two looks. */
const SOME_LOOKS_MS = 600;
const END_MS = 10_000;

/** Half in answers of netlink that nobody reads, half in echoes; a socket takes 400 KB or more. */
const ATTACK = `
import socket, struct, time
sockets = []
def fill(make, table, column, parse):
    held = 0
    while held < ${HELD_BYTES / 2}:
        s, data, to = make()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 30)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 30)
        s.setblocking(False)
        sockets.append(s)
        try:
            for _ in range(400): s.sendto(data, to)
        except OSError: pass
        lines = open("/proc/self/net/" + table).read().splitlines()[1:]
        held = sum(parse(line.split()[column]) for line in lines)
unknown = struct.pack("IHHII", 60000, 9999, 5, 1, 0) + bytes(59984)
fill(lambda: (socket.socket(16, 3, 0), unknown, (0, 0)), "netlink", 4, int)
echo = struct.pack("BBHHH", 8, 0, 0, 0, 1) + bytes(60000)
fill(lambda: (socket.socket(2, 2, 1), echo, ("127.0.0.1", 0)), "icmp", 4, lambda v: int(v[9:], 16))
open("/dev/shm/held", "w")
time.sleep(60)
`;

/** Connections with 60 KB each, of which their program accepts none. */
const CROWD = `
import socket, time
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen(4096)
for _ in range(2000):
    with socket.create_connection(listener.getsockname()) as client: client.send(bytes(60000))
open("/dev/shm/held", "w")
time.sleep(60)
`;

test("a container ends whose connections hold what nobody accepts, when memory is scarce", async () => {
  await using host = await startOciHost("auto");
  const container = await host.create({ layers: await baseLayers() });
  await initDaemon(container);
  void runInside(container, `python3 -c '${CROWD}'`, "user").catch(() => undefined);
  await runInside(container, "until test -e /dev/shm/held; do sleep 0.05; done");
  const { pid = 0 } = (await readRecord(host.directoryOf(container.id))) ?? {};
  expect(heldBySockets(`/proc/${pid}/net`)).toBeGreaterThan(HELD_BYTES);
  host.machine.freeShare = 0.2;
  expect(await container.exit).toEqual({ reason: "out of memory" });
});

test("a container whose sockets take the machine's memory ends, when that is scarce", async () => {
  await using host = await startOciHost("auto");
  const layers = await baseLayers();
  const [greedy, modest] = await Promise.all([host.create({ layers }), host.create({ layers })]);
  await Promise.all([initDaemon(greedy), initDaemon(modest)]);
  const ends: ContainerExit[] = [];
  for (const { exit } of [greedy, modest]) void exit.then((end) => ends.push(end));

  void runInside(greedy, `python3 -c '${ATTACK}'`, "user").catch(() => undefined);
  await runInside(greedy, "until test -e /dev/shm/held; do sleep 0.05; done");
  const { pid = 0 } = (await readRecord(host.directoryOf(greedy.id))) ?? {};
  expect(heldBySockets(`/proc/${pid}/net`)).toBeGreaterThan(HELD_BYTES);

  await delay(SOME_LOOKS_MS);
  expect(ends).toEqual([]);
  host.machine.freeShare = 0.2;
  await expect.poll(() => ends, { timeout: END_MS }).toEqual([{ reason: "out of memory" }]);
  expect(await runInside(modest, "echo here")).toMatchObject({ stdout: "here\n" });
});

/** Groups of multicast that one socket joins, each of which takes 32 bytes or more. */
const GROUPS = `
import errno, socket, struct
with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as s:
    for group in range(10000):
        address = b"\\xff\\x0e" + bytes(6) + struct.pack(">Q", group + 1)
        try: s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, address + struct.pack("=I", 1))
        except OSError as error: print(group, errno.errorcode[error.errno]); break
`;

test.skipIf(!hasOptionLimit())("a socket holds no more than 4 KiB for its options", async () => {
  await using host = await startOciHost("auto");
  const container = await host.create({ layers: await baseLayers() });
  await initDaemon(container);
  const { stdout } = await runInside(container, `python3 -c '${GROUPS}'`, "user");
  const [groups, reason] = stdout.trim().split(" ");
  expect(reason).toBe("ENOMEM");
  expect(Number(groups)).toBeGreaterThan(20);
  expect(Number(groups) * 32).toBeLessThanOrEqual(4096);
});
