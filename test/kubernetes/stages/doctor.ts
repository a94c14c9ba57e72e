/** What `doctor` reports of the real cluster, and of one whose rights are missing. */

import { execFile } from "node:child_process";
import { resolve } from "node:path";
import type { World } from "../world.ts";

const MAIN = resolve(import.meta.dirname, "../../../dist/main.js");

export async function runDoctor(world: World): Promise<void> {
  const { cluster, account, image, template } = world;
  const words = `--engine kubernetes --kubernetes-url ${cluster.url} --pod-images base=${image}`;
  const run = (more: string) => runMain(`doctor ${words} --pod-template ${template} ${more}`);
  await world.check("doctor: the cluster is usable", async () => {
    const { status, text } = await run(`--kubernetes-account ${account}`);
    if (status !== 0 || !text.includes("userns-container")) throw new Error(`${status} ${text}`);
    return text.trim().replaceAll("\n", "\n    ");
  });
  await world.check("doctor: rights that are missing are named", async () => {
    const namespace = "--kubernetes-namespace default";
    const { status, text } = await run(`--kubernetes-account ${account} ${namespace}`);
    if (status !== 69 || !/not allowed: .*create pods/.test(text)) {
      throw new Error(`${status} ${text}`);
    }
  });
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
