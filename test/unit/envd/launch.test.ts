/** What a command that cannot be executed says, behind the helper that changes its identity. */

import { spawnSync } from "node:child_process";
import { chmod, mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { fromSystemBytes } from "../../../src/common/file-names.ts";
import { planLaunch } from "../../../src/envd/process/launch.ts";
import { ProcessConfigSchema } from "../../../src/gen/process/process_pb.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const ROOT = { name: "root", uid: 0, gid: 0, groups: [0], home: "/root" };
const NOBODY = { name: "nobody", uid: 65_534, gid: 65_534, groups: [65_534], home: "/" };

function plan(cmd: string, args: readonly string[], { user = ROOT, folder = "/usr" }) {
  return planLaunch({
    config: create(ProcessConfigSchema, { cmd, args: [...args] }),
    user,
    cwd: folder,
    globals: new Map(),
    helper: ["/usr/bin/setpriv"],
  });
}

function run(cmd: string, args: readonly string[], user = ROOT) {
  const launch = plan(cmd, args, { user });
  const { file, cwd, env } = launch;
  const { status, stdout, stderr } = spawnSync(file, launch.args, { cwd, env, encoding: "utf8" });
  return [status, stdout, stderr];
}

test.skipIf(process.getuid?.() !== 0).for([
  ["no-such-command", 127],
  ["no such", 127],
  ["./bin/no-such", 127],
  ["/etc/passwd", 126],
  ["/etc", 126],
  ["", 127],
] as const)("the command %j ends with %i and is named by its error", ([cmd, status]) => {
  // Each shell words it in its own way.
  const text = expect.stringMatching(new RegExp(`^sh: .*${cmd || "empty command"}.*\n$`));
  for (const user of [ROOT, NOBODY]) expect(run(cmd, ["a"], user)).toEqual([status, "", text]);
});

test.skipIf(process.getuid?.() !== 0).for(["printf", "/usr/bin/printf", "./bin/printf"])(
  "the command %s runs with its arguments as they are",
  (cmd) => {
    expect(run(cmd, ["<%s>", "$HOME `id`", ""])).toEqual([0, "<$HOME `id`><>", ""]);
  },
);

test.skipIf(process.getuid?.() !== 0).for([
  ["#!/no/such-interpreter -x\n", 127, /^sh: .*script.*\n$/],
  ["#! /bin/sh\necho $1", 0, /^$/],
  ["echo $1", 0, /^$/],
] as const)("the script %j ends with %i", async ([text, status, error]) => {
  await using folder = await makeTempFolder();
  const script = join(folder.path, "script");
  await writeFile(script, text);
  await chmod(folder.path, 0o755);
  await chmod(script, 0o755);
  const output = status === 0 ? "a\n" : "";
  for (const user of [ROOT, NOBODY])
    expect(run(script, ["a"], user)).toEqual([status, output, expect.stringMatching(error)]);
});

test("a folder whose name is not UTF-8 is entered by a link alone, and not its likeness", async () => {
  await using folder = await makeTempFolder();
  const name = Buffer.concat([Buffer.from(join(folder.path, "name")), Buffer.of(0xff)]);
  const link = join(folder.path, "link");
  await mkdir(name);
  await symlink(name, link);
  expect(plan("true", [], { folder: link }).cwd).toBe(link);
  await mkdir(join(folder.path, "name\uFFFD"));
  expect(() => plan("true", [], { folder: fromSystemBytes(name) })).toThrow(/does not exist/);
});
