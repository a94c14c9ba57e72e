/** Files as the public clients' users read, write, list and move them. */

import type { EntryInfo, Sandbox } from "e2b";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { RELEASES, useSdkServe } from "../../support/clients/sdk.ts";

const service = useSdkServe();

describe.each(RELEASES)("e2b $release", ({ sdk }) => {
  let sandbox: Sandbox;

  beforeAll(async () => {
    sandbox = await sdk.Sandbox.create("base", service.options);
  });

  afterAll(async () => sandbox.kill());

  /** One file in each of the four forms that a reader may ask for, as one text each. */
  async function readAllForms(path: string, options: { readonly gzip?: boolean } = {}) {
    const { files } = sandbox;
    const stream = await files.read(path, { ...options, format: "stream" });
    return {
      text: await files.read(path, options),
      bytes: Buffer.from(await files.read(path, { ...options, format: "bytes" })).toString(),
      blob: await (await files.read(path, { ...options, format: "blob" })).text(),
      stream: await new Response(stream).text(),
    };
  }

  test.for([
    ["some text", "first line\nsecond, with ä and 🙂\n"],
    ["nothing", ""],
  ] as const)("a file of %s reads the same as text, bytes, blob and stream", async ([, text]) => {
    expect(await sandbox.files.write("forms.txt", text)).toEqual({
      name: "forms.txt",
      path: "/home/user/forms.txt",
      type: "file",
    });
    const expected = { text, bytes: text, blob: text, stream: text };
    expect(await readAllForms("forms.txt")).toEqual(expected);
    expect(await readAllForms("forms.txt", { gzip: true })).toEqual(expected);
  });

  test("a missing file is a file-not-found error in every form", async () => {
    const { files } = sandbox;
    const outcomes = await Promise.allSettled([
      files.read("missing.txt"),
      files.read("missing.txt", { format: "bytes" }),
      files.read("missing.txt", { format: "blob" }),
      files.read("missing.txt", { format: "stream" }),
    ]);
    const refused = { status: "rejected", reason: expect.any(sdk.FileNotFoundError) };
    expect(outcomes).toEqual([refused, refused, refused, refused]);
    await expect(files.read("missing.txt")).rejects.toThrow(
      "path '/home/user/missing.txt' does not exist",
    );
  });

  test("reading a folder is an invalid-argument error", async () => {
    await expect(sandbox.files.read("/tmp")).rejects.toThrow(sdk.InvalidArgumentError);
    await expect(sandbox.files.read("/tmp")).rejects.toThrow("path '/tmp' is a directory");
  });

  test("text, buffer, blob and stream are written in one call, in order", async () => {
    const written = await sandbox.files.write([
      { path: "kinds/text", data: "as text" },
      { path: "/home/user/kinds/buffer", data: new TextEncoder().encode("as buffer").buffer },
      { path: "kinds/blob", data: new Blob(["as ", "blob"]) },
      { path: "kinds/deeper/stream", data: new Blob(["as stream"]).stream() },
    ]);
    expect(written.map((file) => file.path)).toEqual([
      "/home/user/kinds/text",
      "/home/user/kinds/buffer",
      "/home/user/kinds/blob",
      "/home/user/kinds/deeper/stream",
    ]);
    const read = await Promise.all(written.map(async (file) => sandbox.files.read(file.path)));
    expect(read).toEqual(["as text", "as buffer", "as blob", "as stream"]);
  });

  test("a list of one gives a list, an empty list gives nothing", async () => {
    expect(await sandbox.files.write([{ path: "one.txt", data: "1" }])).toEqual([
      { name: "one.txt", path: "/home/user/one.txt", type: "file" },
    ]);
    expect(await sandbox.files.write([])).toEqual([]);
    const many = Array.from({ length: 10 }, (_, index) => ({
      path: `many/${index}.txt`,
      data: `number ${index}`,
    }));
    expect(await sandbox.files.writeFiles(many)).toHaveLength(10);
    expect(await sandbox.files.read("many/9.txt")).toBe("number 9");
  });

  test("an overwritten file holds the new text alone, and keeps its mode", async () => {
    await sandbox.files.write("over.txt", "a long first text");
    await sandbox.commands.run("chmod 600 over.txt");
    await sandbox.files.write("over.txt", "short");
    expect(await sandbox.files.read("over.txt")).toBe("short");
    expect((await sandbox.files.getInfo("over.txt")).permissions).toBe("-rw-------");
  });

  test("uploads may be raw or compressed, one or several", async () => {
    const big = "compressible ".repeat(20_000);
    await sandbox.files.write("raw.txt", big, { useOctetStream: true });
    await sandbox.files.write("zipped.txt", big, { gzip: true });
    await sandbox.files.write(
      [
        { path: "zip/a.txt", data: "a" },
        { path: "zip/b.txt", data: "b" },
      ],
      { gzip: true },
    );
    const read = async (path: string) => sandbox.files.read(path);
    expect((await read("raw.txt")) === big).toBe(true);
    expect((await read("zipped.txt")) === big).toBe(true);
    expect([await read("zip/a.txt"), await read("zip/b.txt")]).toEqual(["a", "b"]);
    const stream = await sandbox.files.read("raw.txt", { format: "stream", gzip: true });
    expect((await new Response(stream).text()) === big).toBe(true);
  });

  test("a reader that leaves a stream early leaves nothing broken", async () => {
    await sandbox.commands.run("head -c 8000000 /dev/zero > wide.bin");
    const stream = await sandbox.files.read("wide.bin", { format: "stream" });
    const reader = stream.getReader();
    expect((await reader.read()).done).toBe(false);
    await reader.cancel();
    expect((await sandbox.files.read("wide.bin", { format: "bytes" })).length).toBe(8_000_000);
  });

  test("another user's home, owner and files", async () => {
    await sandbox.files.write("rooted.txt", "by root", { user: "root" });
    expect(await sandbox.files.getInfo("/root/rooted.txt")).toMatchObject({
      owner: "root",
      group: "root",
    });
    expect(await sandbox.files.read("rooted.txt", { user: "root" })).toBe("by root");
    const nobody = { user: "nobody-here" };
    await expect(sandbox.files.read("x", nobody)).rejects.toThrow(sdk.AuthenticationError);
    await expect(sandbox.files.write("x", "x", nobody)).rejects.toThrow(sdk.AuthenticationError);
    await expect(sandbox.files.list(".", nobody)).rejects.toThrow(sdk.AuthenticationError);
  });

  test("what is created belongs to the user with the usual modes, at the root too", async () => {
    await sandbox.files.write("/at-the-root/inner/file.txt", "x");
    const rows = await Promise.all(
      ["/at-the-root", "/at-the-root/inner", "/at-the-root/inner/file.txt"].map(async (path) => {
        const { permissions, mode, owner, group, type } = await sandbox.files.getInfo(path);
        return [permissions, mode.toString(8), owner, group, type];
      }),
    );
    expect(rows).toEqual([
      ["drwxr-xr-x", "755", "user", "user", "dir"],
      ["drwxr-xr-x", "755", "user", "user", "dir"],
      ["-rw-r--r--", "644", "user", "user", "file"],
    ]);
  });

  test("four uploads into one folder that is not there yet all arrive", async () => {
    const names = ["a", "b", "c", "d"];
    await Promise.all(names.map(async (name) => sandbox.files.write(`new/and/deep/${name}`, name)));
    const listed = await sandbox.files.list("new/and/deep");
    expect(listed.map((entry) => entry.name)).toEqual(names);
  });

  test("a listing is depth first, sorted, and never has the folder itself", async () => {
    await sandbox.files.write([
      { path: "tree/subdir2/leaf2.txt", data: "" },
      { path: "tree/subdir1/inner/deepest.txt", data: "" },
      { path: "tree/subdir1/leaf1.txt", data: "" },
      { path: "tree/file1.txt", data: "" },
      { path: "tree/Upper.txt", data: "" },
    ]);
    const listed = async (depth?: number) => {
      const entries = await sandbox.files.list("tree", depth === undefined ? {} : { depth });
      return entries.map((entry) => entry.path.replace("/home/user/tree/", ""));
    };
    const shallow = ["Upper.txt", "file1.txt", "subdir1", "subdir2"];
    expect(await listed()).toEqual(shallow);
    expect(await listed(1)).toEqual(shallow);
    expect(await listed(2)).toEqual([
      "Upper.txt",
      "file1.txt",
      "subdir1",
      "subdir1/inner",
      "subdir1/leaf1.txt",
      "subdir2",
      "subdir2/leaf2.txt",
    ]);
    expect(await listed(3)).toEqual([
      "Upper.txt",
      "file1.txt",
      "subdir1",
      "subdir1/inner",
      "subdir1/inner/deepest.txt",
      "subdir1/leaf1.txt",
      "subdir2",
      "subdir2/leaf2.txt",
    ]);
    await expect(sandbox.files.list("tree", { depth: -1 })).rejects.toThrow(
      sdk.InvalidArgumentError,
    );
  });

  test("an entry says all that its types promise", async () => {
    await sandbox.files.write("info/plain.txt", "12345");
    await sandbox.commands.run("ln -s plain.txt info/link; ln -s info info-link");
    const plain = await sandbox.files.getInfo("info/plain.txt");
    expect(plain).toEqual({
      name: "plain.txt",
      type: "file",
      path: "/home/user/info/plain.txt",
      size: 5,
      mode: 0o644,
      permissions: "-rw-r--r--",
      owner: "user",
      group: "user",
      modifiedTime: expect.any(Date),
      symlinkTarget: undefined,
    } satisfies Record<keyof Omit<EntryInfo, "metadata">, unknown>);
    expect(Math.abs(Number(plain.modifiedTime) - Date.now())).toBeLessThan(60_000);
    const folder = await sandbox.files.getInfo("info");
    expect([folder.type, folder.size > 0, folder.symlinkTarget]).toEqual(["dir", true, undefined]);
    expect(await sandbox.files.getInfo("info/link")).toMatchObject({
      name: "link",
      type: "file",
      path: "/home/user/info/link",
      mode: 0o644,
      permissions: "Lrwxrwxrwx",
      symlinkTarget: "/home/user/info/plain.txt",
    });
    const through = await sandbox.files.list("info-link");
    expect(through.map((entry) => [entry.path, entry.symlinkTarget])).toEqual([
      ["/home/user/info-link/link", "/home/user/info/plain.txt"],
      ["/home/user/info-link/plain.txt", undefined],
    ]);
  });

  test("info of, and a list of, what is not there is a file-not-found error", async () => {
    await expect(sandbox.files.getInfo("missing")).rejects.toThrow(sdk.FileNotFoundError);
    await expect(sandbox.files.list("missing")).rejects.toThrow(sdk.FileNotFoundError);
    await sandbox.files.write("plain", "");
    await expect(sandbox.files.list("plain")).rejects.toThrow(sdk.InvalidArgumentError);
    await expect(sandbox.files.list("plain")).rejects.toThrow(
      "path is not a directory: /home/user/plain",
    );
  });

  test("a folder is made once, with all that leads to it", async () => {
    expect(await sandbox.files.makeDir("made/of/many")).toBe(true);
    expect(await sandbox.files.makeDir("made/of/many")).toBe(false);
    expect((await sandbox.files.getInfo("made/of")).owner).toBe("user");
    await sandbox.files.write("in-the-way", "");
    await expect(sandbox.files.makeDir("in-the-way")).rejects.toThrow(sdk.InvalidArgumentError);
  });

  test("a renamed file is at its new path alone", async () => {
    await sandbox.files.write("old-name.txt", "kept");
    const moved = await sandbox.files.rename("old-name.txt", "into/new-name.txt");
    expect(moved).toMatchObject({
      name: "new-name.txt",
      path: "/home/user/into/new-name.txt",
      type: "file",
    });
    expect(await sandbox.files.exists("old-name.txt")).toBe(false);
    expect(await sandbox.files.read("into/new-name.txt")).toBe("kept");
    await expect(sandbox.files.rename("old-name.txt", "x")).rejects.toThrow(sdk.FileNotFoundError);
    await expect(sandbox.files.rename("into/new-name.txt", "/tmp")).rejects.toThrow(
      sdk.SandboxError,
    );
  });

  test("a renamed link stays a link; one whose target moved leads nowhere", async () => {
    await sandbox.files.write("target.txt", "t");
    await sandbox.commands.run("ln -s /home/user/target.txt link-a");
    expect(await sandbox.files.rename("link-a", "link-b")).toMatchObject({
      symlinkTarget: "/home/user/target.txt",
      type: "file",
    });
    await sandbox.files.rename("target.txt", "moved-target.txt");
    expect((await sandbox.commands.run("readlink link-b")).stdout).toBe("/home/user/target.txt\n");
    expect(await sandbox.files.exists("link-b")).toBe(true);
    await expect(sandbox.files.read("link-b")).rejects.toThrow(sdk.FileNotFoundError);
  });

  test("what is removed is gone, a folder with all that is in it; nothing is no error", async () => {
    await sandbox.files.write("doomed/inner/file.txt", "x");
    await sandbox.files.remove("doomed");
    expect(await sandbox.files.exists("doomed")).toBe(false);
    await expect(sandbox.files.remove("doomed")).resolves.toBeUndefined();
    expect(await sandbox.files.exists("/home/user")).toBe(true);
  });

  test.for([
    "with space.txt",
    `quote".txt`,
    "per%20cent.txt",
    "ünï🙂.txt",
    "-dash",
    ".hidden",
    "a&b=c?d#e",
    "a+b;c.txt",
    "back\\slash",
  ])("the name %j survives every call", async (name) => {
    const path = `names/${name}`;
    const { files } = sandbox;
    await files.write(path, "multipart");
    expect(await files.read(path)).toBe("multipart");
    await files.write(path, name, { useOctetStream: true });
    expect(await files.read(path)).toBe(name);
    expect((await files.getInfo(path)).name).toBe(name);
    expect((await files.list("names")).map((entry) => entry.name)).toContain(name);
    await files.rename(path, `${path}.moved`);
    await files.remove(`${path}.moved`);
    expect(await files.exists(path)).toBe(false);
  });

  test("paths that cannot be are refused with a class of their own", async () => {
    const { files } = sandbox;
    await expect(files.read("~other/x")).rejects.toThrow(sdk.InvalidArgumentError);
    await expect(files.write("/proc/no-such/x", "x")).rejects.toThrow(/error ensuring directories/);
    await expect(files.write("/tmp", "x")).rejects.toThrow("path is a directory: /tmp");
    await expect(files.getInfo("a\0b")).rejects.toThrow(sdk.InvalidArgumentError);
    await expect(files.getInfo("/".padEnd(5000, "a"))).rejects.toThrow(sdk.SandboxError);
  });
});
