/** A program for hostnames that does not take its names at first, as on a machine under load. */

import { chmod, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import { createEgressProgram } from "../../../src/engine/network/egress-program.ts";
import { makeNetwork } from "../../support/network/router-parts.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

/** Takes its settings; the first one that runs says nothing after that. */
const program = (log: string) => `import { appendFileSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";
const log = ${JSON.stringify(log)};
appendFileSync(log, process.pid + "\\n");
const isFirst = readFileSync(log, "utf8").trim() === String(process.pid);
let count = 0;
for await (const line of createInterface({ input: process.stdin })) {
  count += 1;
  if (count === 1 || !isFirst) process.stdout.write("ok\\n");
}`;

test("one that was ended for its silence has one in its place", { timeout: 40_000 }, async () => {
  await using folder = await makeTempFolder();
  await using network = await makeNetwork(join(folder.path, "router"));
  await chmod(folder.path, 0o755);
  const log = join(folder.path, "log");
  await writeFile(log, "");
  await chmod(log, 0o666);
  const file = join(folder.path, "program");
  await writeFile(file, program(log));
  const names = createEgressProgram({
    network: network.path,
    user: 2_000_000_001,
    resolvers: [],
    hosts: [],
    program: file,
    perlDirectory: PERL_DIRECTORY,
  });
  // The next one waits for its turn.
  const first = await names
    .order("198.18.0.1", ["one.test"])
    .catch((error: unknown) => String(error));
  await names.order("198.18.0.2", ["two.test"]);
  await delay(1_000);
  await names.stop();
  const started = (await readFile(log, "utf8")).trim().split("\n").map(Number);
  const left = started.filter((pid) => {
    try {
      return process.kill(pid, "SIGKILL");
    } catch {
      return false;
    }
  });
  expect({ first, started: started.length, left: left.length }).toEqual({
    first: expect.stringContaining("silent"),
    started: 2,
    left: 0,
  });
});
