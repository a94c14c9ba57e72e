/** Puts what a container may reach into force, from outside of it. */

import type { Egress } from "../engine.ts";
import { slotOf } from "../host/id-ranges.ts";
import { readStartTicks, type ContainerRecord } from "../oci/container-record.ts";
import { toCanonical } from "./egress.ts";
import { connectSender, disconnectSender, type HostNetwork } from "./router.ts";

export interface EgressTarget {
  readonly directory: string;
  readonly record: ContainerRecord;
  /** Undefined where containers have loopback alone. */
  readonly outside: HostNetwork | undefined;
}

/**
 * Connects the container under these rules, changes the rules of its link, or takes the link away.
 * @throws SandboxError invalid_argument for what is no IPv4 network, unavailable when it is gone.
 */
export async function setEgress(target: EgressTarget, egress: Egress): Promise<void> {
  const { directory, record, outside } = target;
  const rules = toCanonical(egress);
  if (outside === undefined) return;
  if (rules === "none") {
    await disconnectSender(directory);
    return;
  }
  const { pid, startTicks } = record;
  const isOver = () => readStartTicks(pid) !== startTicks;
  await connectSender({ directory, slot: slotOf(record.idBase), pid, isOver }, rules, outside);
}
