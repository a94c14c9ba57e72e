/** Files of 10 MB through the gateway, beside the same bytes to and from a local file. */

import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Sandbox } from "e2b";
import { startServe } from "../test/support/serve.ts";
import { measurePair, timed, type Figure } from "./figure.ts";

const SAMPLES = 15;
const SIZE_BYTES = 10_000_000;

export async function measureFiles(): Promise<Figure[]> {
  await using serve = await startServe();
  const folder = await mkdtemp(join(tmpdir(), "sandbox-mcp-bench-"));
  const local = join(folder, "local.bin");
  const sandbox = await Sandbox.create("base", {
    apiKey: serve.apiKey,
    apiUrl: serve.url,
    sandboxUrl: serve.url,
  });
  const headers = {
    "e2b-sandbox-id": sandbox.sandboxId,
    "e2b-sandbox-port": "49983",
    "x-access-token": tokenOf(await detailOf(serve, sandbox.sandboxId)),
  };
  const url = `${serve.url}/files?path=/home/user/bench.bin`;
  const bytes = Buffer.alloc(SIZE_BYTES, "sandbox-mcp ");
  try {
    const write = await measurePair({
      name: "write of 10 MB",
      floorName: "write of a local file",
      samples: SAMPLES,
      ours: async () =>
        timed(async () => {
          const reply = await fetch(url, {
            method: "POST",
            body: bytes,
            headers: { ...headers, "content-type": "application/octet-stream" },
          });
          if (!reply.ok) throw new Error(await reply.text());
          await reply.arrayBuffer();
        }),
      floor: async () => timed(async () => writeFile(local, bytes)),
    });
    const read = await measurePair({
      name: "read of 10 MB",
      floorName: "read of a local file",
      samples: SAMPLES,
      ours: async () =>
        timed(async () => {
          const identity = { ...headers, "accept-encoding": "identity" };
          const reply = await fetch(url, { headers: identity });
          const { byteLength } = await reply.arrayBuffer();
          if (byteLength !== SIZE_BYTES) throw new Error(`read ${byteLength} bytes`);
        }),
      floor: async () => timed(async () => readFile(local)),
    });
    return [write, read];
  } finally {
    await sandbox.kill();
    await rm(folder, { recursive: true, force: true });
  }
}

async function detailOf(
  serve: { readonly url: string; readonly apiKey: string },
  id: string,
): Promise<unknown> {
  const reply = await fetch(`${serve.url}/sandboxes/${id}`, {
    headers: { "x-api-key": serve.apiKey },
  });
  return reply.json();
}

function tokenOf(detail: unknown): string {
  const hasToken = typeof detail === "object" && detail !== null && "envdAccessToken" in detail;
  return hasToken ? String(detail.envdAccessToken) : "";
}
