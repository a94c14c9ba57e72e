/** The README's lines for E2B clients, copied as they are, do the main job from Node, Python and curl. */

import { execFile } from "node:child_process";
import { readFile, symlink, writeFile } from "node:fs/promises";
import { delimiter, dirname, join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findPythonClient } from "../support/clients/python-client.ts";
import { openTestHome, type TestHome } from "../support/home.ts";
import { startProgram, type TestProgram } from "../support/program.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const README = join(ROOT, "README.md");
/** A machine without systemd-resolved does not resolve names below localhost; curl does. */
const NAMES = resolve(import.meta.dirname, "../support/network/loopback-names.ts");
const PYTHON_NAMES = resolve(import.meta.dirname, "../support/python-names");
const PYTHON_CLIENT = "2.63.0";

const client = await findPythonClient(PYTHON_CLIENT);

describe("with the exports of the README", () => {
  let home: TestHome;
  let serve: TestProgram;
  let exports = "";

  beforeAll(async () => {
    home = await openTestHome();
    const words = ["serve", "--tls", "auto", "--port", "0", "--home", home.path];
    serve = startProgram(words);
    const port = await readPort(serve);
    const key = /shown once: (e2b_[0-9a-f]{40})/.exec(serve.stderr())?.[1] ?? "";
    const lines = await readBlock("sh", "export E2B_DOMAIN");
    exports = lines.replace("3490", port).replaceAll("<home>", home.path).replace("<key>", key);
  });

  afterAll(async () => {
    await serve[Symbol.asyncDispose]();
    await home[Symbol.asyncDispose]();
  });

  /** What the lines print to a person who typed the exports before them. */
  async function type(lines: string, environment: Readonly<Record<string, string>> = {}) {
    const { stdout } = await promisify(execFile)("sh", ["-ec", `${exports}\n${lines}`], {
      env: { PATH: process.env["PATH"] ?? "", HOME: home.path, ...environment },
    });
    return stdout;
  }

  test("Node", async () => {
    await using folder = await makeTempFolder();
    const path = join(folder.path, "main.mjs");
    await symlink(join(ROOT, "node_modules"), join(folder.path, "node_modules"));
    await writeFile(path, await readBlock("js", "import"));
    const environment = {
      PATH: `${dirname(process.execPath)}${delimiter}${process.env["PATH"]}`,
      NODE_OPTIONS: `--import ${NAMES}`,
    };
    expect(await type(`node ${path}`, environment)).toBe("hello from Node\n\n");
  });

  // Where there is no package index; `npm run clients:tls` plays with Python in any case.
  test.skipIf(client.python === undefined)("Python", async () => {
    await using folder = await makeTempFolder();
    const path = join(folder.path, "main.py");
    await writeFile(path, await readBlock("python", "from e2b"));
    // No compiled file beside those of the repository.
    const environment = { PYTHONPATH: PYTHON_NAMES, PYTHONDONTWRITEBYTECODE: "1" };
    const printed = await type(`${client.python} ${path}`, environment);
    expect(printed).toBe("hello from Python\n\n");
  });

  test("curl", async () => {
    const printed = await type(await readBlock("sh", "auth="));
    expect(printed).toMatch(/^PRETTY_NAME=/);
    const list = `curl -fsS -H "X-API-Key: $E2B_API_KEY" "https://api.$E2B_DOMAIN/v2/sandboxes"`;
    expect(await type(list)).toBe("[]");
  });
});

/** The port of the domain that it prints; the line that ends what it prints comes after that one. */
async function readPort({ stdout }: TestProgram): Promise<string> {
  let port = "";
  for await (const line of createInterface({ input: stdout })) {
    port = /E2B_DOMAIN=\S+:(\d+)/.exec(line)?.[1] ?? port;
    if (line.includes("SSL_CERT_FILE=")) return port;
  }
  throw new Error("serve ended before it listened");
}

/** The block of the section that begins with a text. */
async function readBlock(language: string, start: string): Promise<string> {
  const [, section = ""] = (await readFile(README, "utf8")).split("## E2B clients");
  const [inside = ""] = section.split("\n## ");
  const blocks = [...inside.matchAll(/^```(\w+)\n([^]*?)^```$/gm)];
  const block = blocks.find(([, name, text = ""]) => name === language && text.startsWith(start));
  expect(block?.[2]).toBeDefined();
  return block?.[2] ?? "";
}
