/** What a program is started with: taken and handed on whole, or refused with the bound. */

import { afterAll, beforeAll, expect, test } from "vitest";
import { collect } from "../../support/daemon/collect.ts";
import { startTestDaemon, type TestDaemon } from "../../support/daemon/envd.ts";
import { faultOf } from "../../support/daemon/fault-of.ts";
import { textOf } from "../../support/hostile/request-cases.ts";
import { createRandom, type Random } from "../../support/random.ts";
import { tellCells } from "../../support/run/cells.ts";
import { IS_WHOLE_RUN } from "../../support/runtimes.ts";

const SEED = Number(process.env["FUZZ_SEED"] ?? Date.now() % 1_000_000_007);
const CASES = IS_WHOLE_RUN ? 500 : 16;
/** Of all cases together: on a busy machine each start takes ten times as long. */
const LIMIT_MS = 360_000;
const MAX_STRING = 131_071;
const MAX_TOTAL = 1_572_864;
/** As much as a create may give. */
const GLOBAL = "g".repeat(98_300 - "GLOBAL=".length);

let daemon: TestDaemon;
beforeAll(async () => {
  daemon = await startTestDaemon({ init: { envVars: { GLOBAL } } });
});
afterAll(() => daemon[Symbol.asyncDispose]());

interface Wish {
  readonly args: string[];
  readonly envs: Record<string, string>;
}

/** One string around its bound, or many that are around the bound of all. */
function chooseWish(random: Random): Wish {
  const size = MAX_STRING + random.pick([-1, 0, 1, 1 + random.below(50_000)]);
  const kind = random.below(4);
  if (kind === 0) return { args: [textOf(random, size)], envs: {} };
  if (kind === 1) return { args: [], envs: { NAME: textOf(random, size - "NAME=".length) } };
  const amount = 10 + random.below(8);
  const strings = Array.from({ length: amount }, () =>
    textOf(random, 80_000 + random.below(40_000)),
  );
  if (kind === 2) return { args: strings, envs: {} };
  const envs = Object.fromEntries(strings.map((value, index) => [`N${index}`, value]));
  return { args: [], envs };
}

/** The bytes of all strings with what the kernel adds to each; what is fixed is left out. */
function totalOf({ args, envs }: Wish): number {
  const pairs = Object.entries(envs).map(([name, value]) => `${name}=${value}`);
  return [...args, ...pairs, `GLOBAL=${GLOBAL}`].reduce(
    (sum, text) => sum + Buffer.byteLength(text) + 9,
    0,
  );
}

/** Far more than the words and variables that every process has. */
const FIXED_BYTES = 2_000;

test(
  `E44 arguments and environment around their bounds, seed ${SEED}`,
  { timeout: LIMIT_MS },
  async (context) => {
    const random = createRandom(SEED);
    const faults: string[] = [];
    for (let count = 0; count < CASES; count += 1) {
      const wish = chooseWish(random);
      const longest = Math.max(
        ...wish.args.map((text) => Buffer.byteLength(text)),
        ...Object.entries(wish.envs).map(([name, value]) => Buffer.byteLength(`${name}=${value}`)),
      );
      const total = totalOf(wish);
      const isRefused = longest > MAX_STRING || total > MAX_TOTAL;
      // So near the bound of all, what is fixed decides.
      if (!isRefused && total > MAX_TOTAL - FIXED_BYTES) continue;
      const script = 'printf "%s." "${#GLOBAL}"; printf "%s" "$*" | wc -c';
      const process = { cmd: "/bin/sh", args: ["-c", script, "sh", ...wish.args], envs: wish.envs };
      if (isRefused) {
        const [code, text] = await faultOf(collect(daemon.processes.start({ process })));
        const bound = longest > MAX_STRING ? `${MAX_STRING}` : `${MAX_TOTAL}`;
        const isFine = code === "InvalidArgument" && text.includes(bound) && text.length < 2_000;
        if (!isFine) faults.push(`${longest} of ${total}: ${code} ${text.slice(0, 200)}`);
        continue;
      }
      const bytes = Buffer.byteLength(wish.args.join(" "));
      const { stdout, end } = await collect(daemon.processes.start({ process }));
      const isWhole = stdout.trim().replace(/\s+/g, "") === `${GLOBAL.length}.${bytes}`;
      if (!isWhole) faults.push(`${longest} of ${total}: ${stdout.slice(0, 100)} ${end.status}`);
    }
    expect(faults).toEqual([]);
    tellCells(context, CASES);
  },
);

test.for([
  { name: "an empty name", envs: { "": "v" }, text: "environment has an empty name" },
  { name: "=", envs: { "A=B": "v" }, text: 'environment has an equals sign in the name "A=B"' },
  { name: "NUL", envs: { A: "\0" }, text: "command or environment contains a NUL byte" },
])("E44 a variable with $name is refused", async ({ envs, text }) => {
  const process = { cmd: "/bin/true", envs };
  expect(await faultOf(collect(daemon.processes.start({ process })))).toEqual([
    "InvalidArgument",
    text,
  ]);
});

test("E44 control: the kernel refuses what is beyond the bound of a string", async () => {
  const script = `exec /bin/true "$(head -c ${MAX_STRING + 1} /dev/zero | tr '\\0' x)"`;
  const { end, stderr } = await collect(
    daemon.processes.start({ process: { cmd: "/bin/sh", args: ["-c", script] } }),
  );
  expect([end.exitCode, stderr]).toEqual([126, expect.stringContaining("rgument list too long")]);
});
