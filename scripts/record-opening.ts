/** Asks the live server what it answers to the opening of a host. */

import { once } from "node:events";
import { createInterface } from "node:readline";
import { PassThrough } from "node:stream";
import type { StdioServer } from "../src/mcp/stdio/stdio-connection.ts";
import { serveMcpStdio } from "../src/mcp/stdio/stdio.ts";

/** The lines that the server sends when it gets these messages, one for each request. */
export async function recordAnswers(
  server: StdioServer,
  messages: readonly object[],
  protocol: "auto" | "legacy" = "auto",
): Promise<string[]> {
  const [stdin, stdout] = [new PassThrough(), new PassThrough()];
  const stop = new AbortController();
  const ended = serveMcpStdio({
    open: async () => server,
    protocol,
    stdin,
    stdout,
    signal: stop.signal,
    parentPid: () => 1,
  });
  const lines = createInterface({ input: stdout });
  const answers: string[] = [];
  for (const message of messages) {
    stdin.write(`${JSON.stringify(message)}\n`);
    if (!("id" in message)) continue;
    const [line] = await once(lines, "line");
    answers.push(String(line));
  }
  stop.abort();
  await ended;
  return answers;
}
