/** What the official conformance suite asks of a server besides what ours offers; see `--conformance`. */

import { randomBytes } from "node:crypto";
import { createRequestStateCodec } from "@modelcontextprotocol/server";
import type { ServerExtension } from "../mcp/server.ts";
import { registerContentTools } from "./content-tools.ts";
import { registerFlowTools } from "./flow-tools.ts";
import { registerInputTools } from "./input-tools.ts";
import { registerPrompts } from "./prompts.ts";
import { registerQuestionTools } from "./question-tools.ts";
import { registerResources, WATCHED_URI } from "./resources.ts";

const KEY_BYTES = 32;

/** Makes the fixtures; one set serves all connections, since state goes from one to the next. */
export function createConformanceFixtures(): ServerExtension {
  const codec = createRequestStateCodec({ key: randomBytes(KEY_BYTES) });
  return {
    verifyState: (state, ctx) => codec.verify(state, ctx),
    subscribableUris: new Set([WATCHED_URI]),
    register(server) {
      registerContentTools(server);
      registerFlowTools(server);
      registerQuestionTools(server);
      registerInputTools(server, codec);
      registerPrompts(server);
      registerResources(server);
    },
  };
}
