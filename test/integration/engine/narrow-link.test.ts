/** A machine whose link to the outside takes smaller packets than the links of its containers. */

import { expect, test } from "vitest";
import { within } from "../../support/network/router-parts.ts";
import { openRouterWorld } from "../../support/network/router-world.ts";

const SIZE = 300_000;

/** Sends as much as it was sent. */
const MIRROR = `
import socket
server = socket.create_server(("192.0.2.2", 80))
print(flush=True)
while True:
    stream = server.accept()[0]
    size = 0
    while chunk := stream.recv(65536):
        size += len(chunk)
    stream.sendall(bytes(size))
    stream.close()
`;

const CLIENT = `
import socket
stream = socket.create_connection(("192.0.2.2", 80), 5)
stream.sendall(bytes(${SIZE}))
stream.shutdown(socket.SHUT_WR)
size = 0
try:
    while chunk := stream.recv(65536):
        size += len(chunk)
except TimeoutError:
    pass
print(size)
`;

test("large replies arrive although nobody tells their sender how large packets may be", async () => {
  await using world = await openRouterWorld(MIRROR);
  await within(world.outside, "ip link set one mtu 1280");
  // Without it the kernel would divide packets after the link has judged their size.
  await within(world.far, "ip link set far gso_max_segs 1");
  expect(Number(await within(world.inside, `python3 -c '${CLIENT}'`))).toBe(SIZE);
});
