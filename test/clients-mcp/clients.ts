/** The foreign clients with their pinned versions, and how the driver of each is started. */

import { cp, mkdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { buildGo, installNode, installPython } from "../support/clients/registry-packages.ts";
import type { Target } from "./foreign-client.ts";

const DRIVERS = resolve(import.meta.dirname, "drivers");

const MCP = ["mcp==2.3.0"];
const FASTMCP = ["fastmcp==4.2.3"];
const LANGCHAIN = [
  "langchain-mcp-adapters==0.3.2",
  "langchain-openai==1.7.3",
  "langchain-anthropic==1.7.7",
  "langchain-google-genai==4.4.2",
];
/** The AI SDK, and the SDKs of three providers with their converters of schemas. */
const NODE = [
  "ai@7.0.173",
  "@ai-sdk/mcp@2.0.99",
  "openai@7.57.0",
  "@anthropic-ai/sdk@1.12.0",
  "@google/genai@3.1.0",
  "@modelcontextprotocol/sdk@1.32.2",
];
const GO = "github.com/modelcontextprotocol/go-sdk/mcp@v1.8.0";

export interface ForeignKind {
  readonly name: string;
  /** The words that start its driver. */
  command(target: Target): readonly string[];
  /** Whether it passes progress notifications on. */
  readonly hasProgress: boolean;
  /** Whether the server is told of a call that it gives up. */
  readonly tellsCancel: boolean;
}

/** Installs all of them below the folder. */
export async function obtainClients(folder: string): Promise<readonly ForeignKind[]> {
  const [mcp, fastmcp, langchain, go] = [
    await installPython(join(folder, "mcp"), MCP),
    await installPython(join(folder, "fastmcp"), FASTMCP),
    await installPython(join(folder, "langchain"), LANGCHAIN),
    await buildGo(join(folder, "go"), join(DRIVERS, "go/main.go"), GO),
  ];
  const aiSdk = await obtainNode(folder, "ai-sdk.mjs");
  const python = (program: string, file: string, mode: readonly string[] = []) => ({
    command: (target: Target) => [
      program,
      "-B",
      join(DRIVERS, file),
      JSON.stringify(target),
      ...mode,
    ],
    hasProgress: true,
    tellsCancel: true,
  });
  return [
    { name: "Python mcp, legacy", ...python(mcp, "mcp_client.py", ["legacy"]) },
    { name: "Python mcp, 2026-07-28", ...python(mcp, "mcp_client.py", ["2026-07-28"]) },
    { name: "Python mcp, auto", ...python(mcp, "mcp_client.py", ["auto"]) },
    { name: "fastmcp", ...python(fastmcp, "fastmcp_client.py") },
    { name: "LangChain", ...python(langchain, "langchain_client.py"), tellsCancel: false },
    {
      name: "AI SDK",
      command: (target) => [process.execPath, aiSdk, JSON.stringify(target)],
      hasProgress: false,
      tellsCancel: false,
    },
    {
      name: "Go SDK",
      command: (target) => [go, JSON.stringify(target)],
      hasProgress: true,
      tellsCancel: true,
    },
  ];
}

/** A program of ours beside the packages of the npm registry, so that it finds them. */
export async function obtainNode(folder: string, file: string): Promise<string> {
  const place = join(folder, "node");
  await mkdir(place, { recursive: true });
  await installNode(place, NODE);
  const path = join(place, file);
  await cp(join(DRIVERS, file), path);
  return path;
}
