/** `manifest`: prints tools.manifest.json as this program lists it. */

import { createService } from "../client/service.ts";
import { renderManifest } from "../mcp/manifest.ts";
import { startMcpState } from "../mcp/state.ts";
import { TOOLS } from "../mcp/tools/index.ts";
import { EXIT_OK, VERSION, type CommandContext } from "./program/command.ts";

export async function runManifest({ log }: CommandContext): Promise<number> {
  // Listing calls no service: nothing is ever sent to this address.
  await using service = createService({ url: "http://localhost", apiKey: "" });
  await using state = startMcpState({ service: () => service, log, onExit: () => "leave" });
  process.stdout.write(await renderManifest({ state, tools: TOOLS, version: VERSION }));
  return EXIT_OK;
}
