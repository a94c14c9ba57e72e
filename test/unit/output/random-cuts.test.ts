/** Output in chunks of any size: no byte is lost, doubled or moved, whatever the cuts split. */

import { expect, test } from "vitest";
import { createSilentLog } from "../../../src/common/log.ts";
import { SandboxLogs } from "../../../src/output/logs.ts";
import { pageOutput } from "../../../src/output/page-output.ts";
import { ProcessOutput } from "../../../src/output/process-output.ts";
import { startSpools } from "../../../src/spool/spools.ts";
import { createFakeClock } from "../../support/fake-clock.ts";
import { withoutMark } from "../../support/marks.ts";
import { createRandom, type Random } from "../../support/random.ts";

const SEEDS = Array.from({ length: 20 }, (_, index) => index + 1);
const CHARACTERS = ["a", "é", "€", "😀", "\n", "7"];
const STREAMS = ["stdout", "stderr"] as const;

function textOf(random: Random, characters: number): string {
  return Array.from({ length: characters }, () => CHARACTERS[random.below(CHARACTERS.length)]).join(
    "",
  );
}

interface Chunk {
  readonly stream: (typeof STREAMS)[number];
  readonly bytes: Buffer;
}

/** Both texts in pieces of 0 to 7 bytes, in any order. */
function cut(random: Random, texts: Readonly<Record<Chunk["stream"], string>>): Chunk[] {
  const left = { stdout: Buffer.from(texts.stdout), stderr: Buffer.from(texts.stderr) };
  const chunks: Chunk[] = [];
  while (left.stdout.length + left.stderr.length > 0) {
    const stream = STREAMS[random.below(2)] ?? "stdout";
    const size = random.below(8);
    chunks.push({ stream, bytes: left[stream].subarray(0, size) });
    left[stream] = left[stream].subarray(size);
  }
  return chunks;
}

/** Without line ends: each change of the source ends a line of the log. */
function plain(text: string): string {
  return text.replaceAll("\n", "");
}

test.for(SEEDS)("pages of both streams add up to what was written, seed %i", async (seed) => {
  const random = createRandom(seed);
  const texts = { stdout: textOf(random, 3_000), stderr: textOf(random, 3_000) };
  const output = new ProcessOutput(undefined);
  for (const { stream, bytes } of cut(random, texts)) await output.append(stream, bytes);
  const seen = { stdout: "", stderr: "" };
  for (let cursor = 0; cursor < output.totalBytes;) {
    const options = {
      cursor,
      maxBytes: 1_000 + random.below(500),
      streams: STREAMS,
      isRunning: true,
    };
    const page = await pageOutput(output, options);
    for (const { stream, parts } of page.texts)
      seen[stream] += parts.map((part) => (typeof part === "string" ? part : part.note)).join("");
    expect(page.nextCursor).toBeGreaterThan(cursor);
    cursor = page.nextCursor;
  }
  expect(seen).toEqual(texts);
});

test.for(SEEDS)("the log of two processes has what each wrote, seed %i", async (seed) => {
  const random = createRandom(seed);
  const clock = createFakeClock();
  const log = createSilentLog();
  const spools = startSpools({ root: undefined, clock, log });
  await using logs = new SandboxLogs({ clock, spools, log });
  logs.open("i1");
  const texts = { stdout: textOf(random, 800), stderr: textOf(random, 800) };
  for (const { stream, bytes } of cut(random, texts)) logs.output("i1", "p_1", { stream, bytes });
  const seen = { stdout: "", stderr: "" };
  let source: Chunk["stream"] = "stdout";
  for (const line of withoutMark((await logs.read("i1", 0)) ?? "").split("\n")) {
    const named = /^--- p_1 (stdout|stderr)$/.exec(line)?.[1];
    if (named !== undefined) source = named === "stderr" ? "stderr" : "stdout";
    else if (!line.startsWith("--- ")) seen[source] += line;
  }
  expect(seen).toEqual({ stdout: plain(texts.stdout), stderr: plain(texts.stderr) });
});
