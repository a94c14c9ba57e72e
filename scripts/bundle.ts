/**
 * Packs the program: an MCPB bundle, checked by its own tool, and the npm tarball. Both hold what
 * was built, which needs nothing beside it. Takes the folder to write to as its only argument;
 * `dist` when there is none.
 */

import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { promisify } from "node:util";

const ROOT = resolve(import.meta.dirname, "..");
const BUILT = join(ROOT, "dist");
const INTERPRETER = join(BUILT, "interpreter");
const MCPB = join(ROOT, "node_modules/@anthropic-ai/mcpb/dist/cli/cli.js");

interface PackageFacts {
  readonly name: string;
  readonly version: string;
  readonly description: string;
  readonly license: string;
  readonly keywords: readonly string[];
}

interface ToolsManifest {
  readonly tools: readonly {
    readonly name: string;
    readonly description: string;
    readonly toolset: string;
  }[];
}

const run = promisify(execFile);
const target = resolve(process.argv[2] ?? BUILT);
await mkdir(target, { recursive: true });
const facts: PackageFacts = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8"));
const bundle = await packBundle(facts);
const tarball = await packTarball();
process.stdout.write(`${bundle}\n${tarball}\n`);

async function packBundle(about: PackageFacts): Promise<string> {
  const stage = await mkdtemp(join(tmpdir(), "sandbox-mcp-bundle-"));
  try {
    await cp(BUILT, join(stage, "server"), { recursive: true, filter: isProgram });
    const manifest = join(stage, "manifest.json");
    await writeFile(manifest, JSON.stringify(await describeBundle(about), undefined, 2));
    await cp(join(ROOT, "LICENSE"), join(stage, "LICENSE"));
    await run(process.execPath, [MCPB, "validate", manifest]);
    const path = join(target, `${about.name}-${about.version}.mcpb`);
    await run(process.execPath, [MCPB, "pack", stage, path]);
    return path;
  } finally {
    await rm(stage, { recursive: true });
  }
}

/** Packed results may lie in the same folder. */
function isProgram(path: string): boolean {
  return [BUILT, INTERPRETER].includes(path) || /\.(?:js|cjs|mjs|json|pl|py|sh|txt)$/.test(path);
}

/** The manifest of the bundle; its tools are those of tools.manifest.json that its server lists. */
async function describeBundle(about: PackageFacts): Promise<object> {
  const text = await readFile(join(ROOT, "tools.manifest.json"), "utf8");
  const { tools }: ToolsManifest = JSON.parse(text);
  const env = {
    E2B_API_KEY: "${user_config.api_key}",
    E2B_API_URL: "${user_config.api_url}",
    E2B_SANDBOX_URL: "${user_config.sandbox_url}",
    E2B_DOMAIN: "${user_config.domain}",
  };
  return {
    manifest_version: "0.3",
    name: about.name,
    display_name: "Sandboxes",
    version: about.version,
    description: about.description,
    author: { name: "The sandbox-mcp authors" },
    license: about.license,
    keywords: about.keywords,
    server: {
      type: "node",
      entry_point: "server/main.js",
      mcp_config: { command: "node", args: ["${__dirname}/server/main.js", "stdio"], env },
    },
    tools: tools
      .filter(({ toolset }) => toolset === "core")
      .map(({ name, description }) => ({ name, description })),
    compatibility: { platforms: ["linux", "darwin", "win32"], runtimes: { node: ">=24.9.0" } },
    user_config: {
      api_key: {
        ...setting(
          "Key",
          "API key of an E2B-compatible service; if empty, sandboxes run on this machine.",
        ),
        sensitive: true,
      },
      api_url: setting("Control API", "URL of the service, such as http://127.0.0.1:3490."),
      sandbox_url: setting("Sandbox API", "URL for all traffic to sandboxes; usually the same."),
      domain: setting("Domain", "Domain of the service, if it has a domain instead of URLs."),
    },
  };
}

function setting(title: string, description: string) {
  return { type: "string", title, description, required: false, default: "" };
}

async function packTarball(): Promise<string> {
  const words = ["pack", "--ignore-scripts", "--json", "--pack-destination", target];
  const { stdout } = await run("npm", words, { cwd: ROOT });
  const packed: readonly { readonly filename: string }[] = JSON.parse(stdout);
  return join(target, basename(packed[0]?.filename ?? ""));
}
