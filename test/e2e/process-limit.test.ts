/** A sandbox whose limit of processes is filled by what nobody can name: the refusal leads out. */

import { expect, test } from "vitest";
import { openTestHome } from "../support/home.ts";
import { isGvisor } from "../support/level.ts";
import { startMcpClient } from "../support/mcp/mcp-client.ts";

/** Each of them takes every place that becomes free, and none has output that anybody reads. */
const FILL = `
  open STDIN, "<", "/dev/null";
  open STDOUT, ">", "/dev/null";
  open STDERR, ">", "/dev/null";
  while (1) { fork // select undef, undef, undef, 0.05 }
`;
/** A terminal has a relay; attributes and events are read by programs of the daemon. */
const NEED_A_PROCESS = [
  { tool: "run_process", input: { cmd: "cat", args: ["note"], pty: true } },
  { tool: "stat_path", input: { path: "note" } },
  { tool: "list_directory", input: {} },
  { tool: "watch_path", input: { path: ".", wait_seconds: 0 } },
  { tool: "watch_path", input: { path: ".", wait_seconds: 0 } },
];
const REFUSED = /^resource_exhausted: .*resource temporarily unavailable"\. /;
const POLL = { timeout: 30_000, interval: 200 };

// With a kernel of its own a snapshot has the processes, too.
test.skipIf(isGvisor).for([
  {
    flags: ["--toolsets", "all"],
    told: "pause_sandbox with keep_memory=false and then connect_sandbox end all processes",
    refused: [
      ...NEED_A_PROCESS,
      { tool: "move_path", input: { source: "note", destination: "x" } },
    ],
    calls: [
      { tool: "pause_sandbox", input: { keep_memory: false } },
      { tool: "connect_sandbox", input: {} },
    ],
  },
  {
    flags: [],
    told: "snapshot and create_sandbox make a sandbox with its files",
    refused: NEED_A_PROCESS,
    calls: [],
  },
])("with $flags the files are saved from a filled sandbox", async (row) => {
  const { flags, told, refused, calls } = row;
  await using home = await openTestHome();
  const settings = ["--home", home.path, "--pids", "48", "--pool", "0", ...flags];
  await using client = await startMcpClient(settings);
  const { fields } = await client.call("create_sandbox", {});
  const sandbox = { sandbox_id: fields["sandbox_id"] };
  await client.call("write_file", { ...sandbox, path: "note", content: "kept" });
  const filler = { cmd: "perl", args: ["-e", FILL], wait_seconds: 0 };
  const { text } = await client.call("run_process", { ...sandbox, ...filler });
  const [, process_id] = /process_id: (\w+)/.exec(text) ?? [];
  await client.call("send_signal", { ...sandbox, process_id, signal: "SIGKILL" });
  const run = async (of: object) =>
    (await client.call("run_process", { ...of, cmd: "cat", args: ["note"] })).text;
  await expect
    .poll(() => run(sandbox), POLL)
    .toMatch(/^resource_exhausted: .*temporarily unavailable/);
  expect(await run(sandbox)).toContain(told);
  for (const { tool, input } of refused) {
    const reply = await client.call(tool, { ...sandbox, ...input });
    expect([tool, reply.text]).toEqual([tool, expect.stringMatching(REFUSED)]);
  }
  for (const { tool, input } of calls) {
    expect(await client.call(tool, { ...sandbox, ...input })).toMatchObject({ isError: false });
  }
  const saved = calls.length > 0 ? sandbox : await copyOf(client, sandbox);
  expect(await run(saved)).toMatch(/kept/);
});

async function copyOf(
  client: Awaited<ReturnType<typeof startMcpClient>>,
  sandbox: { readonly sandbox_id: unknown },
) {
  const { fields } = await client.call("snapshot", sandbox);
  const copy = await client.call("create_sandbox", { template: fields["snapshot_id"] });
  return { sandbox_id: copy.fields["sandbox_id"] };
}
