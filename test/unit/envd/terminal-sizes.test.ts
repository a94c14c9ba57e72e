/** New sizes of a terminal whose relay reads none. */

import { setImmediate } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { startOnTerminal } from "../../../src/envd/process/terminal.ts";
import { ProcessConfigSchema } from "../../../src/gen/process/process_pb.ts";
import { launchOf } from "../../support/daemon/spawner.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";

const SIZES = 300_000;
const MAX_KEPT_BYTES = 20_000_000;

function countHeap(): number {
  runInNewContext("gc()");
  return process.memoryUsage().heapUsed;
}

test("they take no memory, and the newest one holds once it reads again", async () => {
  setFlagsFromString("--expose-gc");
  const words = ["sh", "-c", "echo $PPID; while read word; do stty size; done"];
  const terminal = await startOnTerminal({
    config: create(ProcessConfigSchema, { cmd: "sh", args: words.slice(1) }),
    launch: launchOf(words),
    size: { cols: 80, rows: 24 },
    relay: ["perl", "-f", `${PERL_DIRECTORY}/terminal.pl`],
  });
  using stack = new DisposableStack();
  stack.defer(() => terminal.release());
  let shown = "";
  for (const { stream } of terminal.outputs) {
    stream.setEncoding("utf8").on("data", (text: string) => (shown += text));
  }
  await expect.poll(() => shown).toMatch(/^\d+\r\n$/);
  const relay = Number.parseInt(shown, 10);
  process.kill(relay, "SIGSTOP");
  try {
    const before = countHeap();
    for (let index = 1; index <= SIZES; index += 1) {
      terminal.resize?.({ cols: 81 + (index % 9), rows: 25 });
      if (index % 10 === 0) await setImmediate();
    }
    terminal.resize?.({ cols: 123, rows: 45 });
    expect(countHeap() - before).toBeLessThan(MAX_KEPT_BYTES);
  } finally {
    process.kill(relay, "SIGCONT");
  }
  const ask = () => {
    terminal.input?.write("again\n");
    return shown;
  };
  await expect.poll(ask).toContain("45 123\r\n");
});
