/** Accounts come from files that the sandbox can write. */

import { mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createAccountReader, parseAccounts, requireUser } from "../../../src/envd/user.ts";

const PASSWD = [
  "root:x:0:0:root:/root:/bin/bash",
  "user:x:1000:1000::/home/user:/bin/bash",
  "twin:x:1000:1000::/home/twin:/bin/sh",
  "user:x:7:7::/evil:/bin/sh",
  "bare:x:5:6",
  "broken",
  ":x:9:9::/nobody:/bin/sh",
  "negative:x:-1:0::/:/bin/sh",
  "huge:x:99999999999:0::/:/bin/sh",
  "nobody:x:65534:65534::relative:/bin/sh",
  "",
].join("\n");
const GROUP = ["root:x:0:", "sudo:x:27:user,,twin", "user:x:1000:", "bad:x:zz:user"].join("\n");

test("users carry their groups, the primary one first", () => {
  const { users } = parseAccounts(PASSWD, GROUP);
  expect(users.get("user")).toEqual({
    name: "user",
    uid: 1000,
    gid: 1000,
    home: "/home/user",
    groups: [1000, 27],
  });
});

test("malformed lines are skipped, of two equals the first counts", () => {
  const { users, userNames, groupNames } = parseAccounts(PASSWD, GROUP);
  expect({
    users: [...users.keys()],
    owner: userNames.get(1000),
    groups: [...groupNames],
    home: users.get("nobody")?.home,
  }).toEqual({
    users: ["root", "user", "twin", "bare", "nobody"],
    owner: "user",
    groups: [
      [0, "root"],
      [27, "sudo"],
      [1000, "user"],
    ],
    home: "/",
  });
});

test("an unknown user and a missing one are refused in the wire's words", () => {
  const accounts = parseAccounts(PASSWD, GROUP);
  expect(() => requireUser(accounts, "eve")).toThrow(
    "error looking up user 'eve': user: unknown user eve",
  );
  expect(() => requireUser(accounts, undefined)).toThrow("username not provided");
});

test("accounts follow their files; a file that is none counts as empty", async () => {
  const folder = await mkdtemp(join(tmpdir(), "accounts-"));
  try {
    const files = { passwd: join(folder, "passwd"), group: join(folder, "group") };
    await writeFile(files.passwd, "root:x:0:0::/root:/bin/sh\n");
    await symlink("/dev/zero", files.group);
    const reader = createAccountReader(files);
    const before = await reader.read();
    const same = await reader.read();
    await writeFile(files.passwd, "root:x:0:0::/root:/bin/sh\nnew:x:5:5::/new:/bin/sh\n");
    const after = await reader.read();
    expect({
      before: [...before.users.keys()],
      isCached: same === before,
      after: [...after.users.keys()],
      groups: [...after.groupNames.keys()],
    }).toEqual({ before: ["root"], isCached: true, after: ["root", "new"], groups: [] });
  } finally {
    await rm(folder, { recursive: true });
  }
});

test("a line with a NUL byte, which no path and no environment can hold, is skipped", () => {
  const { users } = parseAccounts(
    "a:x:1:1::/home/\0:/bin/sh\nb\0:x:2:2::/home/b:\nc:x:3:3::/home/c:\n",
    "",
  );
  expect([...users.keys()]).toEqual(["c"]);
});
