/** Tool: state, expiry and size of a sandbox. */

import { z } from "../../common/schema.ts";
import type { SandboxDetailBody } from "../../wire/control.ts";
import { sandboxIdInput } from "../inputs.ts";
import { lifeField, networkWord, shortReason, sizeFields } from "../replies/facts.ts";
import { recordReply } from "../replies/respond.ts";
import { READ_ONLY, defineTool, type Suggest } from "../tool.ts";

export const getSandbox = defineTool({
  name: "get_sandbox",
  title: "Describe a sandbox",
  description:
    "Returns the state of a sandbox (running or paused), its start and expiry, its template, " +
    "size, labels and network rules. Use it when a call failed and it is unclear whether the " +
    "sandbox still exists; otherwise every result contains its expiry.",
  toolset: "core",
  input: z.strictObject({ sandbox_id: sandboxIdInput() }),
  output: z.object({
    sandbox_id: z.string(),
    state: z.enum(["running", "paused"]),
    paused_because: z.string().optional(),
    template: z.string(),
    started_at: z.string(),
    expires_at: z.string().optional(),
    time_to_live_seconds: z.number().optional(),
    cpus: z.number(),
    memory_mb: z.number(),
    disk_mb: z.number(),
    network: z.enum(["internet", "filtered", "none"]),
    isolation: z.string().optional(),
    allow_internet: z.boolean().optional(),
    on_timeout: z.enum(["kill", "pause"]).optional(),
    metadata: z.array(z.object({ name: z.string(), value: z.string() })).optional(),
    allow_out: z.array(z.string()).optional(),
    deny_out: z.array(z.string()).optional(),
    port_host: z.string().optional(),
    cannot: z.array(z.string()).optional(),
  }),
  annotations: READ_ONLY,
  async handler({ sandbox_id: sandboxId }, context) {
    const { service, signal, suggest } = context;
    const detail = await service.control.get(sandboxId, signal);
    const { metadata = {}, network, lifecycle, allowInternetAccess, missingAbilities } = detail;
    const host = service.portHost(detail.sandboxID, "{port}");
    return recordReply({
      sandbox_id: detail.sandboxID,
      state: detail.state,
      ...(detail.pauseReason !== undefined && {
        paused_because: reasonOf(detail, detail.pauseReason, suggest),
      }),
      template: detail.alias ?? detail.templateID,
      started_at: detail.startedAt,
      // The time to live of a paused one does not run.
      ...(detail.state === "running" && { expires_at: detail.endAt }),
      ...lifeField(context, detail.sandboxID),
      ...sizeFields(detail),
      network: networkWord(allowInternetAccess !== false, network),
      ...(detail.isolation !== undefined && { isolation: detail.isolation }),
      ...(typeof allowInternetAccess === "boolean" && { allow_internet: allowInternetAccess }),
      ...(lifecycle?.onTimeout !== undefined && { on_timeout: lifecycle.onTimeout }),
      ...(Object.keys(metadata).length > 0 && { metadata: toPairs(metadata) }),
      ...(network?.allowOut !== undefined && { allow_out: network.allowOut }),
      ...(network?.denyOut !== undefined && { deny_out: network.denyOut }),
      ...(host !== undefined && { port_host: host }),
      ...(missingAbilities !== undefined && { cannot: missingAbilities }),
    });
  },
});

const REASONS = {
  request: "a call paused it",
  timeout: "its time to live ended",
  disk_full:
    "the disk of the service is nearly full; the service resumes it when there is space: " +
    "delete snapshots or sandboxes that are not needed",
} as const;

type Paused = Pick<
  SandboxDetailBody,
  "pausedMemory" | "pausedMemoryFault" | "envdUnresponsiveAtPause"
>;

function reasonOf(detail: Paused, reason: keyof typeof REASONS, suggest: Suggest): string {
  const fault = faultOf(detail);
  if (fault !== undefined) {
    const next = suggest("connect_sandbox", `; connect_sandbox ${WITHOUT_MEMORY}`);
    return `${REASONS[reason]}; ${fault}${next}`;
  }
  const resume = suggest("connect_sandbox", "; connect_sandbox resumes it");
  const suffix = detail.pausedMemory === "disk" ? "; its programs wait on disk and go on then" : "";
  return `${REASONS[reason]}${reason === "disk_full" ? "" : resume}${suffix}`;
}

const WITHOUT_MEMORY = "with keep_memory=false starts new processes on its files";

/** Why its programs do not go on; undefined where they may. */
function faultOf({
  pausedMemory,
  pausedMemoryFault,
  envdUnresponsiveAtPause,
}: Paused): string | undefined {
  if (pausedMemoryFault !== undefined) return shortReason(pausedMemoryFault);
  const isSilent = pausedMemory !== undefined && envdUnresponsiveAtPause === true;
  return isSilent ? "its daemon did not answer then" : undefined;
}

function toPairs(record: Readonly<Record<string, string>>) {
  return Object.entries(record).map(([name, value]) => ({ name, value }));
}
