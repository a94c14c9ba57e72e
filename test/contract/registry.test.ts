/** What registries read says the same as the package itself. */

import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { expect, test } from "vitest";
import { z } from "../../src/common/schema.ts";
import { loadConfig } from "../../src/config.ts";

const ROOT = resolve(import.meta.dirname, "../..");

const packageSchema = z.object({ name: z.string(), version: z.string(), mcpName: z.string() });
const serverSchema = z.object({
  name: z.string(),
  description: z.string().max(100),
  version: z.string(),
  packages: z.array(
    z.object({
      registryType: z.string(),
      identifier: z.string(),
      version: z.string(),
      environmentVariables: z.array(
        z.object({ name: z.string(), isSecret: z.boolean().optional() }),
      ),
    }),
  ),
});

async function readJson(name: string): Promise<unknown> {
  return JSON.parse(await readFile(resolve(ROOT, name), "utf8"));
}

test("server.json names the package, its version, and settings that the program has", async () => {
  const { name, version, mcpName } = packageSchema.parse(await readJson("package.json"));
  const server = serverSchema.parse(await readJson("server.json"));
  expect([server.name, server.version]).toEqual([mcpName, version]);
  const [npm, ...others] = server.packages;
  expect(others).toEqual([]);
  expect(npm).toMatchObject({ registryType: "npm", identifier: name, version });
  const variables = npm?.environmentVariables ?? [];
  const secrets = variables.filter(({ isSecret }) => isSecret === true);
  expect(secrets.map((variable) => variable.name)).toEqual(["E2B_API_KEY"]);
  const given = Object.fromEntries(
    variables.map(({ name: variable }) => [
      variable,
      variable === "E2B_DOMAIN" ? "service.example" : "https://service.example",
    ]),
  );
  expect(loadConfig(given, [])).toMatchObject({
    config: {
      engine: "remote",
      remote: {
        apiKey: given["E2B_API_KEY"],
        apiUrl: given["E2B_API_URL"],
        sandboxUrl: given["E2B_SANDBOX_URL"],
        domain: given["E2B_DOMAIN"],
      },
    },
  });
});
