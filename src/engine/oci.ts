/** The engine of the product: containers by an OCI runtime that was seen to work on this machine. */

import { isAbsolute, normalize } from "node:path";
import { SandboxError } from "../common/errors.ts";
import { openCgroup, readCgroupHost } from "./cgroups.ts";
import { checkId, openContainer } from "./container.ts";
import { prepareDaemon } from "./daemon.ts";
import type { Container, Engine } from "./engine.ts";
import { startContainer } from "./launch.ts";
import { probeMachine, type ProbeOptions, type ProbeResult } from "./probe.ts";
import { readRecord, readStartTicks } from "./record.ts";
import { removeContainer } from "./removal.ts";

/** An engine for this machine. Nothing is started or looked at before the first call. */
export function createOciEngine(options: ProbeOptions): Engine {
  let known: Promise<ProbeResult> | undefined;
  const probe = async (freshness: "cached" | "fresh"): Promise<ProbeResult> => {
    if (freshness === "fresh") known = undefined;
    const running = (known ??= probeMachine(options, freshness));
    try {
      const result = await running;
      // A machine that is mended meanwhile is looked at again.
      if (!result.report.isUsable) known = undefined;
      return result;
    } catch (error) {
      known = undefined;
      throw error;
    }
  };
  return {
    name: "oci",
    probe: async (freshness = "cached") => (await probe(freshness)).report,
    create: async (spec, signal) => {
      const { choice, report } = await probe("cached");
      if (choice === undefined) throw refusal(report.checks.find((check) => check.remedy));
      const daemon = await prepareDaemon(options.home, options.daemon);
      const context = { ...choice, cgroups: await readCgroupHost(), daemon };
      return startContainer(context, spec, signal);
    },
    adopt: adoptContainer,
    remove: async (id, directory) => {
      checkId(id);
      if (!isAbsolute(directory) || normalize(directory) !== directory) {
        throw new SandboxError("invalid_argument", `not a plain absolute path: ${directory}`);
      }
      await removeContainer(directory, openCgroup(await readCgroupHost(), id));
    },
  };
}

function refusal(
  check: { readonly name: string; readonly detail: string; readonly remedy?: string } | undefined,
): SandboxError {
  if (check === undefined) return new SandboxError("unavailable", "no OCI runtime works here");
  const hint = check.remedy === undefined ? {} : { hint: check.remedy };
  return new SandboxError("unavailable", `${check.name}: ${check.detail}`, hint);
}

async function adoptContainer(id: string, directory: string): Promise<Container | undefined> {
  checkId(id);
  const record = await readRecord(directory);
  if (record === undefined || record.id !== id) return undefined;
  if ((await readStartTicks(record.pid)) !== record.startTicks) return undefined;
  const cgroup = openCgroup(await readCgroupHost(), id);
  return (await cgroup.isPopulated()) ? openContainer({ directory, record, cgroup }) : undefined;
}
