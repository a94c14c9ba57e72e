/** A bare `jupyter_client` with the packages of the template, on the host: the floor of a cell. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";

/** In namespaces of mounts and processes of its own: nothing of the layer is written. */
const IN_LAYER = `
mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && mount -t tmpfs none "$0/tmp" &&
mount -t proc none "$0/proc" && mount --rbind /dev "$0/dev" &&
exec chroot "$0" /usr/bin/env -i HOME=/tmp PATH=/usr/bin:/bin LANG=C.UTF-8 \\
  PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -u -c "$1"`;

export interface BareKernel extends AsyncDisposable {
  /** Runs a cell; its milliseconds, and the characters of text and images that came. */
  run(code: string): Promise<{ readonly ms: number; readonly size: number }>;
  /** Of client and kernel. */
  memoryMib(): Promise<number>;
}

/** Starts one from the root file system of a layer. */
export async function startBareKernel(root: string): Promise<BareKernel> {
  const program = await readFile(join(import.meta.dirname, "bare-kernel.py"), "utf8");
  const flags = ["--mount", "--pid", "--fork", "--kill-child"];
  const child = spawn("unshare", [...flags, "sh", "-c", IN_LAYER, root, program], {
    stdio: ["pipe", "pipe", "ignore"],
  });
  const exit = once(child, "exit");
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const ask = async (question: string | null): Promise<readonly [number, number]> => {
    child.stdin.write(`${JSON.stringify(question)}\n`);
    const { value, done } = await lines.next();
    const answer: unknown = done === true ? undefined : JSON.parse(value);
    if (!Array.isArray(answer)) throw new Error("the bare kernel ended");
    return [Number(answer[0]), Number(answer[1])];
  };
  return {
    async run(code) {
      const [ms, size] = await ask(code);
      return { ms, size };
    },
    memoryMib: async () => (await ask(null))[0],
    async [Symbol.asyncDispose]() {
      child.stdin.end();
      await exit;
    },
  };
}
