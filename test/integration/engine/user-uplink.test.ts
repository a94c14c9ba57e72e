/** The link of an ordinary user's router, whose program dies at a moment at which nothing reads of it. */

import { execFileSync, type ChildProcess } from "node:child_process";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { isRootless } from "../../../src/common/privilege.ts";
import { readStat } from "../../../src/engine/host/process-stat.ts";
import { openUserUplink } from "../../../src/engine/network/user-uplink.ts";
import { makeNetwork } from "../../support/network/router-parts.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

/** The processes whose first word this is. */
function findProcesses(title: string): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => readTitle(pid).startsWith(title))
    .map(Number);
}

function readTitle(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return "";
  }
}

/** What Node publishes when a program is started. */
function isStart(message: unknown): message is { readonly process: ChildProcess } {
  return message instanceof Object && "process" in message;
}

/** Without a turn of the event loop: the kernel keeps it until then. */
function untilDead(pid = 0): void {
  const cell = new Int32Array(new SharedArrayBuffer(4));
  while (readStat(pid) !== undefined) Atomics.wait(cell, 0, 0, 10);
}

const HAS_TUNNELS = existsSync("/dev/net/tun");

test.skipIf(isRootless() || !HAS_TUNNELS)(
  "a death while its link is set up is an error",
  async () => {
    await using folder = await makeTempFolder();
    await using network = await makeNetwork(join(folder.path, "network"));
    const owner = folder.path;
    const title = `sandbox-mcp-uplink:${owner}`;
    const inNetwork = (script: string) =>
      execFileSync("nsenter", [`--net=${network.path}`, "sh", "-c", script], { timeout: 10_000 });
    const begun = Promise.withResolvers<void>();
    const children: ChildProcess[] = [];
    // The program itself, and the one that sets its link up, which has its input in the next turn.
    const collect = (message: unknown) => {
      if (!isStart(message)) return;
      children.push(message.process);
      if (children.length === 2) setImmediate(() => begun.resolve());
    };
    subscribe("child_process", collect);
    const opening = openUserUplink({ network: network.path, owner, perlDirectory: PERL_DIRECTORY });
    const outcome = opening.then(async (uplink) => {
      await uplink[Symbol.asyncDispose]();
      return "open";
    }, String);
    await begun.promise;
    unsubscribe("child_process", collect);
    // Nothing of this process runs until the link is set up and its program is dead.
    const [program, change] = children.map(({ pid = 0 }) => pid);
    untilDead(change);
    inNetwork("ip route show default | grep -q dev");
    process.kill(program ?? 0, "SIGKILL");
    untilDead(program);
    expect(await outcome).toMatch(/slirp4netns: ended/);
    expect(findProcesses(title)).toEqual([]);
  },
);
