/** The code interpreter over the wire and by `run_code`, beside a bare `jupyter_client` on the host. */

import { execFile } from "node:child_process";
import { access, cp, mkdir, readdir } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { baseLayers } from "../test/support/base-layer.ts";
import { startMcpClient } from "../test/support/mcp/mcp-client.ts";
import { startBareKernel, type BareKernel } from "./bare-kernel.ts";
import { below, compare, median, quantile, timed, type Row } from "./figure.ts";
import { createSandbox } from "./hosts.ts";
import { startService, type BenchService } from "./service.ts";

/** Kept between runs: the build takes minutes. */
const HOME = "/var/tmp/sandbox-mcp-bench/code";
const BUILD_LIMIT_MS = 30 * 60_000;
const TEMPLATE = "code-interpreter";
const PORT = 49_999;
const PROGRAM = resolve(import.meta.dirname, "../dist/main.js");

const CLAIMS = 6;
const MAX_CLAIMS = 20;
/** A create that takes longer did not find a sandbox in the pool. */
const MAX_CLAIM_MS = 1_000;
/** The kernels of the next one start meanwhile. */
const FILL_MS = 8_000;
/** Pages that a claim has woken are all there, and the pool rests. */
const SETTLE_MS = 2_000;
const CELLS = { samples: 50, budgetMs: 15_000 };
const LARGE = { samples: 5, budgetMs: 20_000 };
const OUTPUT_BYTES = 20_000_000;
const LINE_BYTES = 100;

const PLAIN = "1 + 1";
const OUTPUT = `for _ in range(${OUTPUT_BYTES / LINE_BYTES}): print("x" * ${LINE_BYTES - 1})`;
const PLOT = `import matplotlib.pyplot as plt
figure, axes = plt.subplots(figsize=(4, 3)); axes.bar(list("abc"), [1, 2, 3]); plt.show()`;

export async function measureInterpreter(): Promise<Row[]> {
  const root = await prepareTemplate();
  const flags = ["--pool", "0", "--pool-template", `${TEMPLATE}=1`];
  await using service = await startService(flags, { home: HOME });
  const first = await measureFirst(service);
  await using bare = await startBareKernel(root);
  const sandbox = await service.create(TEMPLATE);
  try {
    const cell = await warm(cellsOf(service, sandbox));
    return [
      first,
      await measureCell({ cell, bare }),
      await measureOutput({ cell, bare }),
      await measurePlot({ cell, bare }),
      await measureIdle(service, root),
      await measureTool(),
    ];
  } finally {
    // The home stays, and a sandbox in it would outlive the service.
    await service.kill(sandbox);
  }
}

/** Builds the template unless it is there; the root of its layer. */
async function prepareTemplate(): Promise<string> {
  await mkdir(join(HOME, "layers"), { recursive: true, mode: 0o700 });
  const [layer] = await baseLayers();
  const base = dirname(layer?.root ?? "");
  const copy = join(HOME, "layers", basename(base));
  const isThere = await access(copy).then(
    () => true,
    () => false,
  );
  if (!isThere) await cp(base, copy, { recursive: true, preserveTimestamps: true });
  const words = ["template", "pull", TEMPLATE, "--if-missing", "--home", HOME];
  await promisify(execFile)(process.execPath, [PROGRAM, ...words], { timeout: BUILD_LIMIT_MS });
  const names = await readdir(join(HOME, "layers"));
  const newest = names.filter((name) => /^interpreter-[0-9]+-[0-9a-f]+$/.test(name)).toSorted();
  return join(HOME, "layers", newest.at(-1) ?? "", "root");
}

/** Runs a cell in one sandbox; the bytes of the reply. */
type Cell = (code: string) => Promise<number>;

interface Pair {
  readonly cell: Cell;
  readonly bare: BareKernel;
}

function cellsOf(service: BenchService, sandbox: string): Cell {
  return async (code) => {
    const target = { sandbox, port: PORT, path: "/execute" };
    const text = await service.send(target, JSON.stringify({ code }));
    if (!text.includes('"end_of_execution"')) throw new Error(`no end: ${text.slice(0, 200)}`);
    return text.length;
  };
}

async function warm(cell: Cell): Promise<Cell> {
  for (let count = 0; count < 5; count += 1) await cell(PLAIN);
  await delay(SETTLE_MS);
  return cell;
}

/** Each from a sandbox of the pool, with variables of its own. */
async function measureFirst(service: BenchService): Promise<Row> {
  const samples: number[] = [];
  for (let count = 0; count < MAX_CLAIMS && samples.length < CLAIMS; count += 1) {
    await delay(FILL_MS);
    let sandbox = "";
    const claimMs = await timed(async () => {
      sandbox = await service.create(TEMPLATE, { envVars: { CLAIM: String(count) } });
    });
    const cellMs = await timed(async () => cellsOf(service, sandbox)(PLAIN));
    if (claimMs <= MAX_CLAIM_MS) samples.push(cellMs);
    await service.kill(sandbox);
  }
  if (samples.length < CLAIMS) throw new Error("the pool was not filled in time");
  const ours = median(samples);
  return {
    id: "code-first",
    name: "first cell after a claim from the pool",
    unit: "ms",
    ours,
    p95: quantile(samples, 0.95),
    samples: samples.length,
    peers: [],
    verdicts: [below("p50 ms", 150, ours)],
  };
}

function measureCell({ cell, bare }: Pair): Promise<Row> {
  return compare({
    ...CELLS,
    id: "code-cell",
    name: "warm cell over the wire",
    ours: async () => timed(async () => cell(PLAIN)),
    floor: { name: "bare jupyter_client", run: async () => (await bare.run(PLAIN)).ms },
    judge: ({ p50 }) => [below("p50 ms", 10, p50)],
  });
}

function measureOutput({ cell, bare }: Pair): Promise<Row> {
  return compare({
    ...LARGE,
    id: "code-output",
    name: "20 MB of output of a cell",
    megabytes: OUTPUT_BYTES / 1e6,
    ours: async () =>
      timed(async () => {
        if ((await cell(OUTPUT)) < OUTPUT_BYTES) throw new Error("output is missing");
      }),
    floor: {
      name: "bare jupyter_client",
      async run() {
        const { ms, size } = await bare.run(OUTPUT);
        if (size < OUTPUT_BYTES) throw new Error("output of the floor is missing");
        return ms;
      },
    },
  });
}

function measurePlot({ cell, bare }: Pair): Promise<Row> {
  return compare({
    ...LARGE,
    samples: 20,
    id: "code-plot",
    name: "a plot, as image and as data",
    ours: async () => timed(async () => cell(PLOT)),
    floor: { name: "bare jupyter_client, the image", run: async () => (await bare.run(PLOT)).ms },
  });
}

/** Resident pages of each process of the interpreter; other figures of another user are hidden. */
const MEMORY = `
import glob, os
total = 0
for path in glob.glob("/proc/[0-9]*"):
    try:
        if b"/interpreter/" in open(path + "/cmdline", "rb").read():
            total += int(open(path + "/statm").read().split()[1])
    except OSError:
        continue
print(total * os.sysconf("SC_PAGE_SIZE") // 1024)`;

/** The server with its kernels of Python and JavaScript; the floor has that of Python alone. */
async function measureIdle(service: BenchService, root: string): Promise<Row> {
  const sandbox = await service.create(TEMPLATE);
  await using bare = await startBareKernel(root);
  await bare.run("import numpy, pandas, matplotlib.pyplot");
  await delay(SETTLE_MS);
  const ours = Number(await service.run(sandbox, ["python3", "-c", MEMORY])) / 1_024;
  await service.kill(sandbox);
  if (ours === 0) throw new Error("no process of the interpreter was found");
  return {
    id: "code-memory",
    name: "resident memory of an idle interpreter (Python and JavaScript)",
    unit: "MiB",
    ours,
    floor: await bare.memoryMib(),
    floorName: "bare jupyter_client and its kernel, same imports",
    samples: 1,
    peers: [],
    verdicts: [],
  };
}

/** By MCP: a process is started for each cell, whose output has a cursor, a log and an end. */
async function measureTool(): Promise<Row> {
  await using client = await startMcpClient(["--home", HOME, "--pool", "0"]);
  const sandbox = await createSandbox(client, TEMPLATE);
  const call = async (name: string, input: Readonly<Record<string, unknown>>) => {
    const { isError, text } = await client.call(name, { sandbox_id: sandbox, ...input });
    if (isError) throw new Error(text);
  };
  return await compare({
    ...CELLS,
    samples: 30,
    id: "code-tool",
    name: "run_code of a warm cell",
    ours: async () => timed(async () => call("run_code", { code: PLAIN })),
    floor: {
      name: "run_process of python3 -c 0",
      run: async () =>
        timed(async () => call("run_process", { cmd: "python3", args: ["-c", "0"] })),
    },
  });
}
