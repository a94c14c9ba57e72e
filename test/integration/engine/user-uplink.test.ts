/** The link of an ordinary user's router, whose program dies at a moment at which nothing reads of it. */

import { execFileSync } from "node:child_process";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { isRootless } from "../../../src/common/privilege.ts";
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
    const starts = Promise.withResolvers<void>();
    let started = 0;
    // The program itself, and the one that sets its link up, which has its input in the next turn.
    const count = () => {
      started += 1;
      if (started === 2) setImmediate(() => starts.resolve());
    };
    subscribe("child_process", count);
    const opening = openUserUplink({ network: network.path, owner, perlDirectory: PERL_DIRECTORY });
    const outcome = opening.then(async (uplink) => {
      await uplink[Symbol.asyncDispose]();
      return "open";
    }, String);
    await starts.promise;
    unsubscribe("child_process", count);
    // Nothing of this process runs until the link is set up and its program is dead.
    inNetwork("until ip route show default | grep -q dev; do sleep 0.01; done; sleep 0.2");
    for (const pid of findProcesses(title)) process.kill(pid, "SIGKILL");
    inNetwork("while [ -e /proc/sys/net/ipv4/conf/wan ]; do sleep 0.01; done; sleep 0.2");
    expect(await outcome).toMatch(/slirp4netns: ended/);
    expect(findProcesses(title)).toEqual([]);
  },
);
