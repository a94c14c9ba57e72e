/** Accounts of an image, whose files may have as many rows as fit into them. */

import { join } from "node:path";
import { expect, test } from "vitest";
import { addUser } from "../../../src/images/accounts.ts";
import { createContents } from "../../../src/images/contents.ts";
import { createTreeWriter } from "../../../src/images/tree-writer.ts";
import { createTree } from "../../../src/images/tree.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const ROWS = 60_000;
const LIMIT_MS = 3_000;

function rows(first: number): string {
  return Array.from({ length: ROWS }, (_, index) => `${(first + index).toString(36)}:\n`).join("");
}

async function imageWith(folder: string, passwd: string) {
  const contents = await createContents(join(folder, "contents"), 1024 ** 3);
  const tree = createTree();
  const files = createTreeWriter(tree, contents);
  await files.write("/etc/passwd", passwd);
  return { files, tree, contents };
}

test("a home that is longer than a path can be is not made", async () => {
  await using folder = await makeTempFolder();
  const home = "/a".repeat(20_000);
  const { files, tree } = await imageWith(folder.path, `user:x:1000:1000::${home}:/bin/sh\n`);
  const before = process.threadCpuUsage();
  await addUser(files, "");
  expect(process.threadCpuUsage(before).user / 1_000).toBeLessThan(LIMIT_MS / 10);
  expect(tree.look("/a")).toBeUndefined();
});

test("files of many accounts are compared in a bounded time", async () => {
  await using folder = await makeTempFolder();
  const contents = await createContents(join(folder.path, "contents"), 1024 ** 3);
  const files = createTreeWriter(createTree(), contents);
  await files.write("/etc/passwd", rows(0));
  await files.write("/etc/shadow", rows(ROWS));
  const before = process.threadCpuUsage();
  await addUser(files, "");
  expect(process.threadCpuUsage(before).user / 1_000).toBeLessThan(LIMIT_MS);
});

test.for([1024 ** 2, 2 * 1024 ** 2])(
  "a file of accounts of %d bytes is refused, and not replaced by one without them",
  async (bytes) => {
    await using folder = await makeTempFolder();
    const passwd = `app:x:1001:1001:#:/app:/bin/sh\n`;
    const { files } = await imageWith(folder.path, passwd.replace("#", "a".repeat(bytes - 30)));
    await expect(addUser(files, "")).rejects.toMatchObject({
      code: "failed_precondition",
      message: "the image cannot be a sandbox: its /etc/passwd has more than 1000000 bytes",
    });
  },
);

test.for([
  { name: "names", count: 1_001, bytes: 1 },
  { name: "bytes", count: 17, bytes: 1024 * 1024 },
])("a home gets no more $name of /etc/skel than a person writes", async ({ count, bytes }) => {
  await using folder = await makeTempFolder();
  const { files, tree, contents } = await imageWith(folder.path, "");
  const content = await contents.add("x".repeat(bytes));
  const meta = { mode: 0o644, uid: 0, gid: 0, mtimeSeconds: 0, attributes: [] };
  for (let index = 0; index < count; index += 1) tree.addFile(`etc/skel/${index}`, meta, content);
  await expect(addUser(files, "")).rejects.toMatchObject({
    code: "failed_precondition",
    message:
      "the image cannot be a sandbox: its /etc/skel has more than 1000 files or 16777216 bytes",
  });
});

test.for([
  { name: "empty rows", passwd: "\n".repeat(1024 * 1024) },
  { name: "short rows", passwd: ":\n".repeat(512 * 1024) },
  { name: "one row", passwd: ":".repeat(1024 * 1024) },
])("accounts of more fields than a machine has are refused at once: $name", async ({ passwd }) => {
  await using folder = await makeTempFolder();
  const { files } = await imageWith(folder.path, passwd);
  await expect(addUser(files, "")).rejects.toMatchObject({
    code: "failed_precondition",
    message: "the image cannot be a sandbox: its /etc/passwd has more than 140000 fields",
  });
});
