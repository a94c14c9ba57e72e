/** Uploads that replace a known content alone. */

import { createHash } from "node:crypto";
import { link, mkdir, readdir, readFile, symlink, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startTestDaemon, type TestDaemon } from "../../support/daemon/envd.ts";

function upload(daemon: TestDaemon, wanted: { path: string; before: string; after: string }) {
  const { path, before, after } = wanted;
  return daemon.http(`/files?path=${encodeURIComponent(path)}`, {
    method: "POST",
    headers: {
      "content-type": "application/octet-stream",
      "x-if-content-sha256": createHash("sha256").update(before).digest("hex"),
    },
    body: after,
  });
}

test.for(["file", "link", "hard"])(
  "%s: another content than the named one is kept",
  async (name) => {
    await using daemon = await startTestDaemon();
    const file = join(daemon.folder, "file");
    await writeFile(file, "one");
    await symlink(file, join(daemon.folder, "link"));
    // In place, since the other name must have the content, too.
    if (name === "hard") await link(file, join(daemon.folder, "hard"));
    const path = join(daemon.folder, name);
    const names = await readdir(daemon.folder);
    const refused = await upload(daemon, { path, before: "two", after: "lost" });
    expect([refused.status, JSON.parse(refused.text)]).toEqual([
      412,
      { code: 412, message: `content of file has changed: ${path}` },
    ]);
    expect(await readFile(file, "utf8")).toBe("one");
    expect((await upload(daemon, { path, before: "one", after: "two" })).status).toBe(200);
    expect(await readFile(file, "utf8")).toBe("two");
    expect(await readdir(daemon.folder)).toEqual(names);
  },
);

test.for(["absent", "folder/absent"])("%s, a file that is gone, is not made", async (name) => {
  await using daemon = await startTestDaemon();
  const path = join(daemon.folder, name);
  const names = await readdir(daemon.folder);
  expect((await upload(daemon, { path, before: "", after: "x" })).status).toBe(412);
  expect(await readdir(daemon.folder)).toEqual(names);
});

test("of many that replace one content a single one does", async () => {
  await using daemon = await startTestDaemon();
  const path = join(daemon.folder, "file");
  await writeFile(path, "0");
  const replies = await Promise.all(
    Array.from({ length: 20 }, (_, number) =>
      upload(daemon, { path, before: "0", after: `${number + 1}` }),
    ),
  );
  const statuses = replies.map(({ status }) => status).toSorted((left, right) => left - right);
  expect(statuses).toEqual([200, ...Array.from({ length: 19 }, () => 412)]);
});

test("of many that replace one content by two names of one file a single one does", async () => {
  await using daemon = await startTestDaemon();
  const paths = ["one", "other"].map((name) => join(daemon.folder, name));
  const [one = "", other = ""] = paths;
  await writeFile(one, "0");
  await link(one, other);
  const replies = await Promise.all(
    Array.from({ length: 20 }, (_, number) =>
      upload(daemon, {
        path: number % 2 === 0 ? one : other,
        before: "0",
        after: `${number + 1}`.repeat(100_000),
      }),
    ),
  );
  const statuses = replies.map(({ status }) => status).toSorted((left, right) => left - right);
  expect(statuses).toEqual([200, ...Array.from({ length: 19 }, () => 412)]);
});

test("a form, which may have many files, takes no hash", async () => {
  await using daemon = await startTestDaemon();
  const path = join(daemon.folder, "file");
  await writeFile(path, "one");
  const body = new FormData();
  body.append("file", new Blob(["lost"]), "file");
  const form = new Response(body);
  const refused = await daemon.http(`/files?path=${encodeURIComponent(path)}`, {
    method: "POST",
    headers: {
      "content-type": form.headers.get("content-type") ?? "",
      "x-if-content-sha256": createHash("sha256").update("two").digest("hex"),
    },
    body: Buffer.from(await form.arrayBuffer()),
  });
  expect([refused.status, JSON.parse(refused.text)]).toEqual([
    400,
    { code: 400, message: "x-if-content-sha256 needs one raw body, not a form" },
  ]);
  expect(await readFile(path, "utf8")).toBe("one");
});

test("what is no hash is refused, and a folder is one all the same", async () => {
  await using daemon = await startTestDaemon();
  const path = join(daemon.folder, "folder");
  await mkdir(path);
  const headers = { "content-type": "application/octet-stream", "x-if-content-sha256": "x" };
  const url = `/files?path=${encodeURIComponent(path)}`;
  const refused = await daemon.http(url, { method: "POST", headers, body: "x" });
  expect([refused.status, refused.text]).toEqual([400, expect.stringContaining("no SHA-256")]);
  expect((await upload(daemon, { path, before: "", after: "x" })).status).toBe(400);
});

test("what would be read without an end is refused", async () => {
  await using daemon = await startTestDaemon();
  const large = join(daemon.folder, "large");
  await writeFile(large, "x");
  await truncate(large, 67_108_865);
  const told = async (path: string) => {
    const { status, text } = await upload(daemon, { path, before: "x", after: "y" });
    return [status, JSON.parse(text)];
  };
  const why = "content cannot be compared: path";
  const device = `${why} is not a regular file: /dev/zero`;
  expect(await told("/dev/zero")).toEqual([400, { code: 400, message: device }]);
  const size = `${why} has more than 67108864 bytes: ${large}`;
  expect(await told(large)).toEqual([400, { code: 400, message: size }]);
});
