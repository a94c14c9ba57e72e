/** Where a command is executed. */

import { mkdir, symlink } from "node:fs/promises";
import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { fromSystemBytes } from "../../../src/common/file-names.ts";
import { planLaunch } from "../../../src/envd/process/launch.ts";
import { ProcessConfigSchema } from "../../../src/gen/process/process_pb.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const ROOT = { name: "root", uid: 0, gid: 0, groups: [0], home: "/root" };
function plan(cwd: string) {
  return planLaunch({
    config: create(ProcessConfigSchema, { cmd: "true" }),
    user: ROOT,
    cwd,
    globals: new Map(),
  });
}

test("a folder whose name is not UTF-8 is entered by a link alone, and not its likeness", async () => {
  await using folder = await makeTempFolder();
  const name = Buffer.concat([Buffer.from(join(folder.path, "name")), Buffer.of(0xff)]);
  const link = join(folder.path, "link");
  await mkdir(name);
  await symlink(name, link);
  expect(plan(link).cwd).toBe(link);
  await mkdir(join(folder.path, "name\uFFFD"));
  expect(() => plan(fromSystemBytes(name))).toThrow(/does not exist/);
});
