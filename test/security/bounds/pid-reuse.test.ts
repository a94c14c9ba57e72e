/** A pid that comes round again belongs to the process that has it now. */

import { userInfo } from "node:os";
import { expect, test } from "vitest";
import { Signal } from "../../../src/gen/process/process_pb.ts";
import { begin, byPid, byTag } from "../../support/clients/rpc-sandbox.ts";
import { collect, runScript } from "../../support/daemon/collect.ts";
import { startTestDaemon } from "../../support/daemon/envd.ts";

/** A world of its own for processes: only there can the next pid be chosen. */
const OWN_PIDS = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"] as const;
/** The daemon's own helpers take pids too, now and then the very one. */
const MAX_ATTEMPTS = 20;

test.skipIf(userInfo().uid !== 0)("a live process never gets the end of an old one", async () => {
  await using daemon = await startTestDaemon({ within: [...OWN_PIDS] });
  const { processes } = daemon;
  const old = await runScript(processes, "exit 5", { tag: "old" });
  const again = async () => {
    await runScript(processes, `echo ${old.pid - 1} > /proc/sys/kernel/ns_last_pid`);
    const started = await begin(processes, "exec sleep 60", { tag: "new", stdin: false });
    if (started.pid === old.pid) return started;
    await processes.sendSignal({ process: byPid(started.pid), signal: Signal.SIGKILL });
    await collect(started.rest);
    return undefined;
  };
  let started: Awaited<ReturnType<typeof again>>;
  for (let count = 0; count < MAX_ATTEMPTS && started === undefined; count += 1) {
    started = await again();
  }
  expect(started?.pid).toBe(old.pid);
  const joined = [byPid(old.pid), byTag("new")].map((process) => processes.connect({ process }));
  const ends = joined.map(async (stream) => collect(stream));
  const gone = collect(processes.connect({ process: byTag("old") }));
  await expect(gone).rejects.toThrow("process with tag old not found");
  expect((await processes.list({})).processes.map(({ pid }) => pid)).toEqual([old.pid]);
  await processes.sendSignal({ process: byPid(old.pid), signal: Signal.SIGKILL });
  for (const { pid, end } of await Promise.all(ends)) {
    expect([pid, end.exited, end.status]).toEqual([old.pid, false, "signal: killed"]);
  }
  const late = await collect(processes.connect({ process: byPid(old.pid) }));
  expect([late.kinds, late.end.status]).toEqual([["start", "end"], "signal: killed"]);
});
