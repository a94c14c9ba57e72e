/** Mounts of images by one program that runs on: see `mounter.pl`. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { resolve } from "node:path";
import { createInterface } from "node:readline";

const PROGRAM = resolve(import.meta.dirname, "mounter.pl");
const CALLS = resolve(import.meta.dirname, "../../../src/perl/syscalls.pl");

interface Mounter extends AsyncDisposable {
  /** Mounts an ext4 image by a loop device of its own, which goes with the mount. */
  attach(image: string, target: string, options: string): Promise<void>;
  /** Takes away a mount with all below it, and waits until the image of an `attach` is free. */
  detach(target: string): Promise<void>;
}

/** One request at a time. */
export function startMounter(): Mounter {
  const child = spawn("perl", [PROGRAM, CALLS, process.arch], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const exit = once(child, "exit");
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  async function ask(...words: readonly string[]): Promise<void> {
    child.stdin.write(`${words.join("\t")}\n`);
    const { value } = await lines.next();
    if (value !== "done") throw new Error(`mounter: ${value ?? "it ended"}`);
  }
  return {
    attach: (image, target, options) => ask("attach", image, target, options),
    detach: (target) => ask("detach", target),
    async [Symbol.asyncDispose]() {
      child.stdin.end();
      await exit;
    },
  };
}
