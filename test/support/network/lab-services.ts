/**
 * What answers in one namespace of the lab, as told by one JSON argument: HTTP and UDP on a port,
 * what it saw of a request on port 80 and behind TLS, listeners as a machine has them, and names.
 */

import { createSocket } from "node:dgram";
import { readFileSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { createServer as createTcpServer } from "node:net";
import { z } from "../../../src/common/schema.ts";

const orderSchema = z.object({
  role: z.string(),
  port: z.number(),
  /** Ports on which a greeting is sent, over IPv4 and IPv6. */
  greetings: z.array(z.number()),
  /** Certificate and key for port 443; without them there is neither 80 nor 443. */
  tls: z.object({ certificate: z.string(), key: z.string() }).optional(),
  nameServer: z.string(),
  /** What names lead to, one list after the other at each question; all others to the last one. */
  names: z.record(z.string(), z.array(z.array(z.string()))),
  elsewhere: z.string(),
});

const order = orderSchema.parse(JSON.parse(process.argv[2] ?? ""));
const DNS_PORT = 53;
const DNS_HEADER_BYTES = 12;
const TYPE_AND_CLASS_BYTES = 5;
const TYPE_A = 1;
const TTL_SECONDS = 1;

const web = createServer((request, response) => {
  const { localAddress, remoteAddress } = request.socket;
  response.end(`${order.role} ${localAddress} saw ${remoteAddress}`);
});
web.listen(order.port, "0.0.0.0");

const tell: RequestListener = (request, response) => {
  let size = 0;
  request.on("data", (chunk: Buffer) => (size += chunk.length));
  request.on("end", () => {
    const { method, url, headers, socket } = request;
    const seen = { at: socket.localAddress, method, url, host: headers.host, size };
    response.setHeader("x-lab", order.role);
    response.end(`${JSON.stringify(seen)}\n`);
  });
};
if (order.tls !== undefined) {
  createServer(tell).listen(80, "0.0.0.0");
  const [cert, key] = [order.tls.certificate, order.tls.key].map((path) => readFileSync(path));
  createTlsServer({ cert, key }, tell).listen(443, "0.0.0.0");
}

const greet = () => createTcpServer((socket) => socket.end(`${order.role} greets`));
for (const port of order.greetings) greet().listen(port, "::");
greet().listen(`\0lab-${order.role}`);

const echo = createSocket("udp4");
echo.on("message", (data, peer) =>
  echo.send(`${order.role} ${data.toString()}`, peer.port, peer.address),
);
echo.bind(order.port, "0.0.0.0");

const asked = new Map<string, number>();

function addressesOf(name: string): readonly string[] {
  const answers = order.names[name] ?? [[order.elsewhere]];
  const count = asked.get(name) ?? 0;
  asked.set(name, count + 1);
  return answers[Math.min(count, answers.length - 1)] ?? [];
}

function readName(query: Buffer): string {
  const labels: string[] = [];
  for (let at = DNS_HEADER_BYTES; (query[at] ?? 0) > 0; at += (query[at] ?? 0) + 1) {
    labels.push(query.toString("latin1", at + 1, at + 1 + (query[at] ?? 0)));
  }
  return labels.join(".").toLowerCase();
}

const names = createSocket("udp4");
names.on("message", (query, peer) => {
  const end = query.indexOf(0, DNS_HEADER_BYTES) + TYPE_AND_CLASS_BYTES;
  const isAddress = query.readUInt16BE(end - 4) === TYPE_A;
  const addresses = isAddress ? addressesOf(readName(query)) : [];
  const counts = Buffer.from([0x81, 0x80, 0, 1, 0, addresses.length, 0, 0, 0, 0]);
  const records = addresses.map((address) => {
    const fields = [0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, TTL_SECONDS, 0, 4];
    return Buffer.from([...fields, ...address.split(".").map(Number)]);
  });
  const parts = [query.subarray(0, 2), counts, query.subarray(DNS_HEADER_BYTES, end)];
  names.send(Buffer.concat([...parts, ...records]), peer.port, peer.address);
});
// Its standard input ends with whoever started it, however that ended.
process.stdin.resume().once("close", () => process.exit());
names.bind(DNS_PORT, order.nameServer, () => process.stdout.write("ready\n"));
