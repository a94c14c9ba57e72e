/** What answers in one namespace of the lab: HTTP and UDP on a port, and every name has one address. */

import { createSocket } from "node:dgram";
import { createServer } from "node:http";

const [role = "", port = "0", answer = "0.0.0.0", nameServer = "0.0.0.0"] = process.argv.slice(2);
const DNS_PORT = 53;
const DNS_HEADER_BYTES = 12;
const TYPE_AND_CLASS_BYTES = 5;
const TYPE_A = 1;

const web = createServer((request, response) => {
  const { localAddress, remoteAddress } = request.socket;
  response.end(`${role} ${localAddress} saw ${remoteAddress}`);
});
web.listen(Number(port), "0.0.0.0");

const echo = createSocket("udp4");
echo.on("message", (data, peer) =>
  echo.send(`${role} ${data.toString()}`, peer.port, peer.address),
);
echo.bind(Number(port), "0.0.0.0");

const names = createSocket("udp4");
names.on("message", (query, peer) => {
  const end = query.indexOf(0, DNS_HEADER_BYTES) + TYPE_AND_CLASS_BYTES;
  const isAddress = query.readUInt16BE(end - 4) === TYPE_A;
  const counts = Buffer.from([0x81, 0x80, 0, 1, 0, isAddress ? 1 : 0, 0, 0, 0, 0]);
  const record = Buffer.from([
    0xc0,
    0x0c,
    0,
    1,
    0,
    1,
    0,
    0,
    0,
    60,
    0,
    4,
    ...answer.split(".").map(Number),
  ]);
  const parts = [query.subarray(0, 2), counts, query.subarray(DNS_HEADER_BYTES, end)];
  const reply = Buffer.concat(isAddress ? [...parts, record] : parts);
  names.send(reply, peer.port, peer.address);
});
names.bind(DNS_PORT, nameServer, () => process.stdout.write("ready\n"));
