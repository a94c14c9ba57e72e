/** The recorded answers to the opening of a host are those of the live server, byte for byte. */

import { afterAll, expect, test } from "vitest";
import packageJson from "../../package.json" with { type: "json" };
import { recordAnswers } from "../../scripts/record-opening.ts";
import { createService } from "../../src/client/service.ts";
import { createSilentLog } from "../../src/common/log.ts";
import { selectTools } from "../../src/mcp/selection.ts";
import { startMcpState } from "../../src/mcp/state.ts";
import { answersFor } from "../../src/mcp/stdio/opening-answers.ts";
import { createOpening } from "../../src/mcp/stdio/opening.ts";
import { TOOLS } from "../../src/mcp/tools/index.ts";

const service = createService({ url: "http://127.0.0.1:9", apiKey: "none" });
const state = startMcpState({
  service: () => service,
  log: createSilentLog(),
  onExit: () => "leave",
});
afterAll(async () => {
  await state[Symbol.asyncDispose]();
  await service[Symbol.asyncDispose]();
});

const CORE = { toolset: "core", isReadOnly: false } as const;
const CLIENT = { name: "host", version: "1" };

interface Case {
  readonly name: string;
  readonly selection?: Parameters<typeof answersFor>[0];
  readonly protocol?: "auto" | "legacy";
  readonly revision?: string;
  readonly capabilities?: object;
  readonly clientInfo?: object;
}

const CASES: readonly Case[] = [
  ...(["auto", "legacy"] as const).flatMap((protocol) =>
    ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"].map((revision) => ({
      name: `revision ${revision}, protocol ${protocol}`,
      protocol,
      revision,
    })),
  ),
  { name: "all tools", selection: { toolset: "all", isReadOnly: false } },
  { name: "read-only tools of core", selection: { toolset: "core", isReadOnly: true } },
  { name: "all read-only tools", selection: { toolset: "all", isReadOnly: true } },
  {
    name: "named tools",
    selection: { ...CORE, names: ["write_file", "get_template", "run_process"] },
  },
  { name: "roots", capabilities: { roots: {} } },
  { name: "changing roots", capabilities: { roots: { listChanged: true } } },
  { name: "sampling", capabilities: { sampling: {} } },
  { name: "elicitation", capabilities: { elicitation: {} } },
  { name: "elicitation of both kinds", capabilities: { elicitation: { form: {}, url: {} } } },
  { name: "no experiments and extensions", capabilities: { experimental: {}, extensions: {} } },
  {
    name: "a client that says all of itself",
    clientInfo: { ...CLIENT, title: "Host", websiteUrl: "https://host.example", description: "" },
  },
];

test.for(CASES)("$name", async ({ selection = CORE, protocol, ...given }) => {
  const { revision = "2025-11-25", capabilities = {}, clientInfo = CLIENT } = given;
  const params = { protocolVersion: revision, capabilities, clientInfo };
  const messages = [
    { jsonrpc: "2.0", id: "first", method: "initialize", params },
    { method: "notifications/initialized", jsonrpc: "2.0" },
    { jsonrpc: "2.0", id: 0, method: "ping" },
    { jsonrpc: "2.0", id: "", method: "ping", params: {} },
    { jsonrpc: "2.0", id: -7, method: "tools/list", params: {} },
  ];
  const server = { state, tools: selectTools(TOOLS, selection), version: packageJson.version };
  const live = await recordAnswers(server, messages, protocol);
  const written: string[] = [];
  const opening = createOpening({
    answers: answersFor(selection),
    write: (line) => void written.push(line),
  });
  const bytes = messages.map((message) => `${JSON.stringify(message)}\n`).join("");
  expect(opening.take(Buffer.from(bytes))).toBe(false);
  expect(written).toEqual(live);
  expect(live).toHaveLength(4);
  expect(opening.heard().rest).toHaveLength(0);
});
