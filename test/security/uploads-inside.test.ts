/** Uploads into real sandboxes, through the gateway: seen whole or not at all, whatever ends them. */

import assert from "node:assert/strict";
import { request, type ClientRequest } from "node:http";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "../../src/common/schema.ts";
import { openGatewayDaemon, type GatewayDaemon } from "../support/hostile/gateway-daemon.ts";
import { createRandom, printedSeed } from "../support/random.ts";
import { tellCells } from "../support/run/cells.ts";
import { attackPlaces, IS_WHOLE_RUN } from "../support/runtimes.ts";

const SEED = printedSeed("uploads inside");
const UPLOADS = IS_WHOLE_RUN ? 520 : 80;
const AT_ONCE = 8;
const MAX_BYTES = 300_000;
const FOLDER = "/home/user/uploads";
const LETTERS = "abcdefghijklmnopqrstuvwxyz";
const READER_PATH = "/opt/reader.py";
/** Reads every file until it is told to end; each begins with its own length in eight digits. */
const READER = `
import json, os, select, sys
looks, faults, staged = 0, [], 0
print("reads", flush=True)
while not select.select([sys.stdin], [], [], 0.001)[0]:
    for name in os.listdir("${FOLDER}"):
        if name.startswith(".e2b-upload."):
            staged += 1
            continue
        try: text = open(os.path.join("${FOLDER}", name)).read()
        except FileNotFoundError: continue
        looks += 1
        isWhole = text[:8].isdigit() and int(text[:8]) == len(text) and len(set(text[8:])) == 1
        if not isWhole and len(faults) < 9: faults.append([name, len(text), text[:8]])
print(json.dumps({"looks": looks, "faults": faults, "staged": staged}), flush=True)
`;
const saidSchema = z.object({
  looks: z.number(),
  faults: z.array(z.unknown()),
  staged: z.number(),
});

/** Sends a body, or only the beginning of it; the status, or that it was cut. */
async function upload(
  { url, headers }: GatewayDaemon,
  path: string,
  body: { readonly bytes: Buffer; readonly stopsAt: number | undefined },
): Promise<number | "cut"> {
  const { promise, resolve } = Promise.withResolvers<number | "cut">();
  const target = `${url}/files?username=root&path=${encodeURIComponent(path)}`;
  const own = { "content-type": "application/octet-stream", "content-length": body.bytes.length };
  const settings = { method: "POST", headers: { ...headers, ...own }, agent: false };
  const call: ClientRequest = request(target, settings, (reply) => {
    reply.resume();
    reply.once("end", () => resolve(reply.statusCode ?? 0));
    reply.once("error", () => resolve("cut"));
  });
  call.once("error", () => resolve("cut"));
  if (body.stopsAt === undefined) call.end(body.bytes);
  else call.write(body.bytes.subarray(0, body.stopsAt), () => call.destroy());
  return promise;
}

describe.each(attackPlaces())("on $name", (place) => {
  let daemon: GatewayDaemon;

  beforeAll(async () => {
    daemon = await openGatewayDaemon(place);
  });

  afterAll(async () => daemon[Symbol.asyncDispose]());

  test(`E55 readers inside see an upload whole or not at all, seed ${SEED}`, async (context) => {
    const { sandbox } = daemon;
    await daemon.run(`mkdir ${FOLDER}`);
    await sandbox.files.write(READER_PATH, READER, { user: "root" });
    const reads = Promise.withResolvers<void>();
    const reader = await sandbox.commands.run(`python3 ${READER_PATH}`, {
      user: "root",
      background: true,
      stdin: true,
      timeoutMs: 0,
      onStdout: () => reads.resolve(),
    });
    await reads.promise;
    let cuts = 0;
    const one = async (number: number): Promise<void> => {
      const random = createRandom(SEED + number);
      const length = 9 + random.below(MAX_BYTES);
      const letter = LETTERS[number % LETTERS.length] ?? "a";
      const bytes = Buffer.from(String(length).padStart(8, "0") + letter.repeat(length - 8));
      const stopsAt = random.once(2) ? random.below(bytes.length) : undefined;
      const path = `${FOLDER}/f${number % AT_ONCE}`;
      const outcome = await upload(daemon, path, { bytes, stopsAt });
      if (outcome === "cut") cuts += 1;
      else assert.equal(outcome, 200, `FUZZ_SEED=${SEED}, upload ${number}`);
    };
    for (let start = 0; start < UPLOADS; start += AT_ONCE) {
      // Each of a turn has a file of its own.
      await Promise.all(Array.from({ length: AT_ONCE }, async (_, index) => one(start + index)));
    }
    await sandbox.commands.sendStdin(reader.pid, "\n");
    const { stdout } = await reader.wait();
    const said = saidSchema.parse(JSON.parse(stdout.split("\n")[1] ?? ""));
    expect(said.faults).toEqual([]);
    expect(said.looks).toBeGreaterThan(UPLOADS / 4);
    // Control: uploads were on their way while it looked.
    expect(said.staged).toBeGreaterThan(0);
    expect(cuts).toBeGreaterThan(UPLOADS / 4);
    const names = Array.from({ length: AT_ONCE }, (_, index) => `f${index}`);
    await expect.poll(async () => daemon.run(`ls -A ${FOLDER}`)).toBe(`${names.join("\n")}\n`);
    tellCells(context, UPLOADS);
  });
});
