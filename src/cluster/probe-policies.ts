/** Whether NetworkPolicies hold for a Pod: what `doctor` can show of it, and no more. */

import { hasErrorCode, toSandboxError } from "../common/errors.ts";
import type { EngineCheck } from "../engine/engine.ts";
import type { PodDialer } from "./dial.ts";
import { proveEnforcement } from "./prove-egress.ts";

const NAME = "network policy";
const REMEDY =
  "use a network plugin that enforces NetworkPolicy and the policies of the chart, with the networks of Pods and nodes in networkPolicy.denied";

/** The policies of the chart keep a Pod from the front that asks it. It never rejects. */
export async function checkPolicies(
  dialer: Pick<PodDialer, "dialControl">,
  signal: AbortSignal,
): Promise<EngineCheck> {
  try {
    await proveEnforcement(dialer, signal);
    const detail = "the probe Pod does not reach the address from which it was asked";
    return { name: NAME, outcome: "ok", detail };
  } catch (error) {
    const warning = { name: NAME, outcome: "warning" } as const;
    if (!hasErrorCode(error, "unimplemented")) {
      const detail = `not shown: ${toSandboxError(error, NAME).message}`;
      return { ...warning, detail, remedy: "use an image of this version: docs/kubernetes.md" };
    }
    const detail =
      "the probe Pod reaches the address from which it was asked: so may sandboxes, and the rest of the network of the cluster";
    return { ...warning, detail, remedy: REMEDY };
  }
}
