/** Files that a program writes become a stream, and that stream becomes the same files again. */

import { existsSync } from "node:fs";
import { readFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { whyNoFuse } from "../../support/fuse.ts";
import { runPerl } from "../../support/perl-program.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const CALLER = [process.arch, String(process.pid)];
const HEAD_BYTES = 17;
const MAX_BYTES = 1_048_576;

interface Frame {
  readonly index?: number;
  readonly offset?: number;
  readonly body?: Buffer | string;
}

/** A frame as the program writes it. */
function frame(kind: string, { index = 0, offset = 0, body = "" }: Frame = {}): Buffer {
  const bytes = Buffer.from(body);
  const head = Buffer.alloc(HEAD_BYTES);
  head.write(kind, "latin1");
  head.writeUInt32LE(index, 1);
  head.writeBigUInt64LE(BigInt(offset), 5);
  head.writeUInt32LE(bytes.length, 13);
  return Buffer.concat([head, bytes]);
}

const END = frame("E");

/** Runs a script of the shell beside the place that is taken, or given. */
async function take(folder: string, script: string, limit = 64 * MAX_BYTES) {
  const inside = ["mount", "tmpfs", folder, "mode=0700,size=1m", "chdir", folder, "mkdir", "image"];
  const steps = ["take", `${limit}`, "isolate", ...inside, "taken", "image"];
  return runPerl("launcher", { words: [...CALLER, ...steps, "exec", "sh", "-ec", script] });
}

interface Given {
  readonly input: Buffer;
  readonly script?: string;
  readonly size?: number;
}

async function give(folder: string, given: Given) {
  const { input, script = "true", size = 8 * MAX_BYTES } = given;
  const inside = ["mount", "tmpfs", folder, "mode=0700,size=1m", "chdir", folder, "mkdir", "image"];
  const steps = ["isolate", ...inside, "give", "image", `${size}`];
  const words = [...CALLER, ...steps, "exec", "sh", "-ec", script];
  const { code, stdout, stderr } = await runPerl("launcher", { words, input });
  return { code, stdout: stdout.toString("latin1"), stderr };
}

const refused = (text: string) => ({ code: 111, stdout: "", stderr: `launcher: ${text}\n` });

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
    const show = "cd image; cat state.img twice.img; tr -d x <pages.img; wc -c <pages.img; ls";
    const given = await give(folder.path, { input: taken.stdout, script: show });
    const names = "pages.img\nstate.img\ntwice.img\n";
    expect(given).toEqual({ code: 0, stdout: `0123AB6789onetwo3000000\n${names}`, stderr: "" });
    expect(await readdir(folder.path)).toEqual([]);
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

  test.for([
    ["image is cut", Buffer.alloc(0)],
    ["image is cut", frame("F", { body: "a" })],
    ["image is cut", frame("F", { body: "a" }).subarray(0, -1)],
    ["image has an unknown file", Buffer.concat([frame("W", { body: "x" }), END])],
    ["image has an unknown file", Buffer.concat([frame("F", { body: "../a" }), END])],
    ["image has an unknown file", Buffer.concat([frame("F", { body: "a/b" }), END])],
    ["image has an unknown frame", Buffer.concat([frame("F", { body: "a" }), frame("X"), END])],
    ["image has a frame that is too long", frame("W", { body: Buffer.alloc(MAX_BYTES + 1) })],
  ] as const)("%s: nothing is started", async ([text, input]) => {
    await using folder = await makeTempFolder();
    await using other = await makeTempFolder();
    const started = join(other.path, "started");
    expect(await give(folder.path, { input, script: `true >${started}` })).toEqual(refused(text));
    expect(existsSync(started)).toBe(false);
  });

  test("files that do not fit are refused", async () => {
    await using folder = await makeTempFolder();
    const body = Buffer.alloc(MAX_BYTES);
    const frames = [
      frame("F", { body: "a" }),
      frame("W", { body }),
      frame("W", { offset: MAX_BYTES, body }),
    ];
    const input = Buffer.concat([...frames, END]);
    expect(await give(folder.path, { input, size: MAX_BYTES })).toMatchObject({ code: 111 });
  });
});

test("without a place in memory nothing is given", async () => {
  const steps = ["take", "1", "exit"];
  const { code, stdout } = await runPerl("launcher", { words: [...CALLER, ...steps] });
  // Nothing was mounted: the process that serves it ends without a stream.
  expect([code, stdout.length]).toEqual([whyNoFuse() === "" ? 0 : 111, 0]);
  expect(await readFile("/proc/self/mountinfo", "utf8")).not.toContain("- fuse sandbox-mcp ");
});
