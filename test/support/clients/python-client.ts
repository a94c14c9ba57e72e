/** The Python package of the public client in an environment of its own, kept between runs. */

import { execFile } from "node:child_process";
import { mkdtemp, rename, rm } from "node:fs/promises";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { isThere } from "../../../src/common/files.ts";

const run = promisify(execFile);

/** A registry that is far away takes long; one that is not there fails at once. */
const INSTALL_LIMIT_MS = 120_000;

export interface PythonClient {
  readonly version: string;
  /** The interpreter that has the package; undefined when there can be none. */
  readonly python: string | undefined;
  /** Why there can be none. */
  readonly reason: string;
}

/** Makes the environment of one exact version, unless an earlier run made it. */
export async function findPythonClient(version: string): Promise<PythonClient> {
  // Where there is no registry, an earlier run has made it in the directory that is named.
  const parent = process.env["PYTHON_CLIENTS"] ?? tmpdir();
  const place = join(parent, `sandbox-mcp-python-${userInfo().uid}-${version}`);
  const python = join(place, "bin/python");
  if (await isThere(python)) return { version, python, reason: "" };
  const draft = await mkdtemp(`${place}-`);
  try {
    await run("python3", ["-m", "venv", draft], { timeout: INSTALL_LIMIT_MS });
    const install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    await run(join(draft, "bin/python"), [...install, `e2b==${version}`], {
      timeout: INSTALL_LIMIT_MS,
    });
    await rename(draft, place);
    return { version, python, reason: "" };
  } catch (error) {
    // Somebody else may have been faster; then theirs is as good.
    if (await isThere(python)) return { version, python, reason: "" };
    return {
      version,
      python: undefined,
      reason: `no e2b ${version} for python: ${lastLine(error)}`,
    };
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}

function lastLine(error: unknown): string {
  return String(error).trim().split("\n").at(-1) ?? "";
}
