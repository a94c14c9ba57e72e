/** What the sandboxes of a run of e2e have; `E2E_RUNTIME` names their runtime. */

import { basename } from "node:path";
import { hasOwnKernel, hasSetId as runtimeHasSetId } from "./runtimes.ts";

const runtime = process.env["E2E_RUNTIME"];

/** Whether they have a kernel of their own; docs/security.md lists what differs by design. */
export const isGvisor: boolean = runtime !== undefined && hasOwnKernel(basename(runtime));

/** For servers of ordinary users, who have no gVisor: the runtime of the machine, whatever the run has. */
export const ORDINARY_RUNTIME = { SANDBOX_MCP_RUNTIME: "auto" };

/** Whether sudo gives rights in them. */
export const hasSetId: boolean = runtime === undefined || runtimeHasSetId(runtime);
