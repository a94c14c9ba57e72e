/** Much output of a process in a sandbox, run and read back through MCP: whole, or with a mark of what is lost. */

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { z } from "../../../src/common/schema.ts";
import type { Answer, FaultHome } from "../faults/fault-home.ts";

/** More than memory keeps of the beginning. */
const LINES = 60_000;
const PAGE_BYTES = 200_000;
const MAX_PAGES = 10;
const resultSchema = z.object({
  isError: z.boolean().optional(),
  content: z.array(z.object({ text: z.string().optional() })),
});

/** @throws Error when output is missing without a mark, or the process has failed. */
export async function runOutput(home: FaultHome, sandboxId: string): Promise<Answer> {
  const { apiKey, apiUrl } = home.client();
  const client = new Client({ name: "test-host", version: "1.0.0" });
  const headers = { authorization: `Bearer ${apiKey}` };
  const url = new URL("/mcp", apiUrl);
  await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }));
  try {
    const call = async (name: string, input: Record<string, unknown>) => {
      const reply = await client.callTool({ name, arguments: { sandbox_id: sandboxId, ...input } });
      const { isError, content } = resultSchema.parse(reply);
      const text = content.map((part) => part.text ?? "").join("\n");
      if (isError === true) throw new Error(text);
      return text;
    };
    const started = await call("run_process", { cmd: `seq ${LINES}`, max_output_bytes: 1_000 });
    const process_id = /process_id: (\S+)/.exec(started)?.[1] ?? "";
    return await readBack(async (cursor) =>
      call("get_process_output", { process_id, cursor, max_bytes: PAGE_BYTES }),
    );
  } finally {
    await client.close();
  }
}

async function readBack(read: (cursor: number) => Promise<string>): Promise<Answer> {
  const found = new Set<string>();
  let hasMark = false;
  let cursor = 0;
  for (let pages = 0; pages < MAX_PAGES; pages += 1) {
    const text = await read(cursor);
    if (!text.includes("exit code 0") && !text.includes("exit_code: 0"))
      throw new Error(text.slice(0, 500));
    for (const line of text.split("\n")) if (/^\d+$/.test(line)) found.add(line);
    hasMark ||= /discarded|lost/.test(text);
    cursor = Number(/next_cursor: (\d+)/.exec(text)?.[1]);
    if (!/bytes more/.test(text)) break;
  }
  // A page may end within a line.
  const missing = LINES - found.size;
  if (missing > MAX_PAGES && !hasMark)
    throw new Error(`${missing} lines are missing without a mark`);
  return { status: 200, body: { hasMark } };
}
