/** One request as bytes, and everything that comes back until the server closes. */

import { once } from "node:events";
import { connect } from "node:net";

const LIMIT_MS = 10_000;

/** Sends lines over a unix socket; `more` follows the empty line. @throws when nobody answers */
export async function exchange(
  socketPath: string,
  lines: readonly string[],
  more = "",
): Promise<string> {
  const socket = connect(socketPath);
  socket.setTimeout(LIMIT_MS, () => socket.destroy(new Error("no answer")));
  let text = "";
  socket.on("data", (chunk: Buffer) => (text += chunk.toString("latin1")));
  socket.write(`${lines.join("\r\n")}\r\n\r\n${more}`, "latin1");
  await once(socket, "close");
  return text;
}

/** The status of a reply; 0 for none. */
export function statusIn(reply: string): number {
  return Number(/^HTTP\/1\.1 (\d{3}) /.exec(reply)?.[1] ?? 0);
}
