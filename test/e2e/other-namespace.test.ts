/**
 * A service that starts in another mount namespace than the one that was killed, as a service of systemd
 * with a private /tmp does at each start: it sees none of the mounts of the one before.
 */

import { Sandbox } from "e2b";
import { expect, test } from "vitest";
import { takeCensus } from "../support/census.ts";
import { LAB, startLab } from "../support/network/lab.ts";
import { PROGRAM } from "../support/program.ts";
import { gvisorRuntime } from "../support/runtimes.ts";
import { startServe, type TestServe } from "../support/serve.ts";

const LIMIT_MS = 180_000;
const OPEN = `http://${LAB.publicHost}:${LAB.port}/`;
/** The program in a mount namespace of its own, which ends with the last process in it. */
const PRIVATE = [
  "unshare",
  "--mount",
  "--propagation",
  "private",
  process.execPath,
  PROGRAM,
] as const;
const RUNTIMES = ["crun", gvisorRuntime()].filter((runtime) => runtime !== undefined);

const clientOf = ({ url, apiKey }: TestServe) => ({ apiKey, apiUrl: url, sandboxUrl: url });

/** The file of the sandbox, and what a public host answers it. */
async function look(sandbox: Sandbox): Promise<readonly string[]> {
  const { stdout } = await sandbox.commands.run(`cat kept; curl -sS -m 3 ${OPEN} 2>&1; true`);
  return stdout.trim().split("\n");
}

/** How much its disk holds. */
async function diskOf(sandbox: Sandbox): Promise<number | undefined> {
  return (await sandbox.getMetrics()).at(-1)?.diskTotal;
}

test.for(RUNTIMES)(
  "sandboxes keep files and internet when the next service sees no mount of the last one: %s",
  { timeout: LIMIT_MS },
  async (runtime) => {
    const all = ["kept", expect.stringContaining("far")];
    await using lab = await startLab();
    const network = ["--egress", lab.namespace, "--dns", LAB.nameServer, "--pool", "0"];
    const flags = [...network, "--runtime", runtime];
    await using first = await startServe(flags, { command: PRIVATE });
    const sandbox = await Sandbox.create("base", clientOf(first));
    const other = await Sandbox.create("base", clientOf(first));
    const diskBytes = await diskOf(sandbox);
    await sandbox.commands.run("echo kept > kept");
    expect(await look(sandbox)).toEqual(all);
    first.program.child.kill("SIGKILL");
    await first.program.exited();

    await using second = await startServe(flags, { earlier: first, command: PRIVATE });
    const options = clientOf(second);
    const found = await Sandbox.connect(sandbox.sandboxId, options);
    expect(await look(found)).toEqual(all);
    expect(await diskOf(found)).toBe(diskBytes);
    const { snapshotId } = await found.createSnapshot();
    const copy = await Sandbox.create(snapshotId, options);
    expect(await look(copy)).toEqual(all);
    // Their router is that of the sandbox too.
    await Promise.all([copy.kill(), Sandbox.kill(other.sandboxId, options)]);
    expect(await look(found)).toEqual(all);
    await found.pause({ keepMemory: false });
    expect(await look(await Sandbox.connect(found.sandboxId, options))).toEqual(all);
    await found.kill();
    await Sandbox.deleteSnapshot(snapshotId, options);
    await second[Symbol.asyncDispose]();
    const { processes, mounts, loopDevices, routers } = await takeCensus(first.home);
    expect({ processes, mounts, loopDevices, routers }).toEqual({
      processes: [],
      mounts: [],
      loopDevices: [],
      routers: [],
    });
  },
);
