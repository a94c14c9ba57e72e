/** What `doctor` reports of the real cluster, and of one whose rights are missing. */

import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { eventually, SNAPSHOTS, type World } from "../world.ts";

const MAIN = resolve(import.meta.dirname, "../../../dist/main.js");

export async function runDoctor(world: World): Promise<void> {
  const { cluster, account, image, template } = world;
  const words = `--engine kubernetes --kubernetes-url ${cluster.url} --pod-images base=${image}`;
  const run = (more: string) => runMain(`doctor ${words} --pod-template ${template} ${more}`);
  await world.check("doctor: the cluster is usable", async () => {
    const { status, text } = await run(
      `--kubernetes-account ${account} --snapshot-registry ${SNAPSHOTS}`,
    );
    const isWhole = ["userns-container", "no quota", "a blob was pushed, read and removed"].every(
      (part) => text.includes(part),
    );
    if (status !== 0 || !isWhole) throw new Error(`${status} ${text}`);
    return text.trim().replaceAll("\n", "\n    ");
  });
  await world.check("doctor: quota and runtime class", () => lackQuota(world));
  await world.check("doctor: rights that are missing are named", async () => {
    const namespace = "--kubernetes-namespace default";
    const { status, text } = await run(`--kubernetes-account ${account} ${namespace}`);
    if (status !== 69 || !/not allowed: .*create pods/.test(text)) {
      throw new Error(`${status} ${text}`);
    }
  });
}

/** A quota that is used up, and a runtime class that is not there. */
async function lackQuota({ admin, cluster, account, image, directory }: World): Promise<string> {
  const file = join(directory, "classed.yaml");
  writeFileSync(file, "spec: { runtimeClassName: absent }");
  const quota = { metadata: { name: "small" }, spec: { hard: { pods: "0" } } };
  await admin.call({ method: "POST", path: "resourcequotas", body: quota });
  try {
    const service = `--engine kubernetes --kubernetes-url ${cluster.url} --kubernetes-account ${account}`;
    const words = `doctor ${service} --pod-images base=${image} --pod-template ${file}`;
    return await eventually(async () => {
      const { status, text } = await runMain(words);
      const isTold = ["0 more sandboxes fit (small: pods)", "absent"].every((part) =>
        text.includes(part),
      );
      if (status !== 69 || !isTold) throw new Error(`${status} ${text}`);
      return text.trim().replaceAll("\n", "\n    ");
    });
  } finally {
    await admin.call({ method: "DELETE", path: "resourcequotas/small" });
  }
}

/** Runs the built program until it ends. */
export async function runMain(
  words: string,
  environment: Readonly<Record<string, string>> = {},
): Promise<{ status: number; text: string }> {
  const { promise, resolve: done } = Promise.withResolvers<{ status: number; text: string }>();
  const env = { ...process.env, ...environment };
  execFile(process.execPath, [MAIN, ...words.split(" ")], { env }, (error, stdout, stderr) => {
    const status = typeof error?.code === "number" ? error.code : 0;
    done({ status, text: stdout + stderr });
  });
  return promise;
}
