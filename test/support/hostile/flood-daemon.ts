/**
 * Run in the place of a daemon, with its two sockets as descriptors 3 and 4: takes what it is told,
 * and floods whoever reads its log, each time in another shape.
 */

import { createServer } from "node:net";
import { createRandom } from "../random.ts";
import { serveFloods } from "./flood-server.ts";
import { FLOOD_SHAPES, makeFlood } from "./log-floods.ts";

const FIRST_DESCRIPTOR = 3;
const SOCKETS = 2;

/** The shape by its name; any, when there is none. */
const [seed = "1", shapeName = ""] = process.argv.slice(2);
const random = createRandom(Number(seed));
const wanted = FLOOD_SHAPES.filter(({ name }) => shapeName === "" || name === shapeName);

for (let index = 0; index < SOCKETS; index += 1) {
  const server = createServer();
  serveFloods(server, () => makeFlood(random, random.pick(wanted)));
  server.listen({ fd: FIRST_DESCRIPTOR + index });
}
