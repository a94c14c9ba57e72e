/** Files that a program writes become a stream; and a place in memory for the files of one. */

import { readFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { describe, expect, test } from "vitest";
import { writeFrames } from "../../../src/engine/gvisor/image-frames.ts";
import { runPerl } from "../../support/daemon/perl-program.ts";
import { whyNoFuse } from "../../support/faults/fuse.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const CALLER = [process.arch, String(process.pid)];
const HEAD_BYTES = 17;
const MAX_BYTES = 1_048_576;

/** Runs a script of the shell beside the place that is taken, or given. */
async function take(folder: string, script: string, limit = 64 * MAX_BYTES) {
  const inside = ["mount", "tmpfs", folder, "mode=0700,size=1m", "chdir", folder, "mkdir", "image"];
  const steps = ["take", `${limit}`, "isolate", ...inside, "taken", "image"];
  return runPerl("launcher", { words: [...CALLER, ...steps, "exec", "sh", "-ec", script] });
}

async function give(folder: string, input: string, script = "true") {
  const inside = ["mount", "tmpfs", folder, "mode=0700,size=1m", "chdir", folder, "mkdir", "image"];
  const steps = ["isolate", ...inside, "give", "image", `${MAX_BYTES}`];
  const words = [...CALLER, ...steps, "exec", "sh", "-ec", script];
  const { code, stdout, stderr } = await runPerl("launcher", { words, input });
  return { code, stdout: stdout.toString("latin1"), stderr };
}

describe.skipIf(whyNoFuse() !== "")("an image that is taken and given", () => {
  test("its files are the same, and were seen by the program alone", async () => {
    await using folder = await makeTempFolder();
    const script = `
      head -c 3000000 /dev/zero | tr '\\0' x >image/pages.img
      printf 0123456789 >image/state.img
      printf AB | dd of=image/state.img bs=1 seek=4 conv=notrunc 2>/dev/null
      exec 4<>image/twice.img; printf one >&4; printf two >&4; exec 4>&-
      sync -f image/twice.img
      stat -c '%s %a' image/state.img >&2`;
    const taken = await take(folder.path, script);
    expect([taken.code, taken.stderr]).toEqual([0, "10 600\n"]);
    expect(await readdir(folder.path)).toEqual([]);
    await using other = await makeTempFolder();
    await writeFrames(Readable.from([taken.stdout]), other.path);
    const read = async (name: string) => readFile(join(other.path, name), "latin1");
    expect((await readdir(other.path)).toSorted()).toEqual(["pages.img", "state.img", "twice.img"]);
    expect(await read("state.img")).toBe("0123AB6789");
    expect(await read("twice.img")).toBe("onetwo");
    expect(await read("pages.img")).toBe("x".repeat(3_000_000));
  });

  test("more than the limit is refused to the program, and so are other names", async () => {
    await using folder = await makeTempFolder();
    const script = `
      head -c 5000 /dev/zero >image/a 2>/dev/null && exit 3
      ! true >image/.hidden; ! mkdir image/folder; ! cat image/a; echo done >&2`;
    const { code, stderr } = await take(folder.path, script, 4_096);
    expect(code).toBe(0);
    expect(stderr).toMatch(/done\n$/);
  });

  test("a program that fails leaves a stream without its end, or none", async () => {
    await using folder = await makeTempFolder();
    const { code, stdout } = await take(folder.path, "printf x >image/a; kill -9 $$");
    expect(code).toBe(null);
    // The stream ends with the file system; who reads it asks how the program ended, too.
    expect(stdout.subarray(HEAD_BYTES, HEAD_BYTES + 1).toString()).toBe("a");
  });

  test("a place in memory is seen by the program alone, and only after the word", async () => {
    await using folder = await makeTempFolder();
    const shown = await give(folder.path, "go\n", "stat -fc %T image; stat -c %a image; ls image");
    expect(shown).toEqual({ code: 0, stdout: "ready\ntmpfs\n700\n", stderr: "" });
    expect(await readdir(folder.path)).toEqual([]);
    for (const input of ["", "g", "stop\n", "go go\n"]) {
      expect(await give(folder.path, input, "echo started")).toEqual({
        code: 111,
        stdout: "ready\n",
        stderr: "launcher: was not told to go on\n",
      });
    }
  });
});

test.for([
  ["go\n", 0, "started\n"],
  ["", 111, ""],
  ["stop\n", 111, ""],
] as const)("a launcher that awaits its word is told %j", async ([input, code, stdout]) => {
  const words = [...CALLER, "await", "exec", "sh", "-c", "echo started"];
  const ended = await runPerl("launcher", { words, input });
  expect([ended.code, ended.stdout.toString("latin1")]).toEqual([code, stdout]);
});

test("without a place in memory nothing is given", async () => {
  const steps = ["take", "1", "exit"];
  const { code, stdout } = await runPerl("launcher", { words: [...CALLER, ...steps] });
  // Nothing was mounted: the process that serves it ends without a stream.
  expect([code, stdout.length]).toEqual([whyNoFuse() === "" ? 0 : 111, 0]);
  expect(await readFile("/proc/self/mountinfo", "utf8")).not.toContain("- fuse sandbox-mcp ");
});
