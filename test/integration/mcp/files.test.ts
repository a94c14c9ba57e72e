/** Files through the tools: write, read in parts, edit, list, compose, remove, watch. */

import { execFile } from "node:child_process";
import { chown, readFile, stat, symlink, writeFile } from "node:fs/promises";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { startMcpWorld, type McpWorld } from "../../support/mcp/mcp-sandbox.ts";

/** Calls in one sandbox, with paths in a folder of their own. */
async function startCalls(world: McpWorld) {
  const sandboxId = await world.createSandbox();
  const at = (name: string) => `${world.folder}/${name}`;
  const call = (tool: string, input: object) =>
    world.call(tool, { sandbox_id: sandboxId, ...input });
  return { sandboxId, at, call };
}

/** A picture of one pixel. */
const PIXEL =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

test("a file is written, read, edited, described and removed", async () => {
  await using world = await startMcpWorld();
  const { at, call } = await startCalls(world);
  const path = at("deep/er/a.txt");
  const wrote = await call("write_file", { path, content: "one\ntwo\nthree\n" });
  expect(wrote.text).toMatch(new RegExp(`^wrote 14 bytes to ${path} \\| sandbox expires in`));
  const read = await call("read_file", { path });
  expect(read.text).toMatch(
    /^bytes 0-13 of 14 \| text\/plain \| sandbox expires in [0-9]+s\n--- content\none\ntwo\nthree\n--- end$/,
  );
  const edit = { path, old_string: "two", new_string: "2\n2" };
  expect((await call("edit_file", edit)).text).toMatch(
    /^replaced 1 of 1 occurrences in .*lines: 2/,
  );
  expect((await call("edit_file", edit)).text).toMatch(/^not_found: old_string does not occur/);
  const twice = { path, old_string: "2", new_string: "x" };
  expect((await call("edit_file", twice)).text).toMatch(
    /^failed_precondition: old_string occurs 2/,
  );
  expect((await call("edit_file", { ...twice, replace_all: true })).text).toContain("lines: 2, 3");
  expect((await call("read_file", { path })).text).toContain("one\nx\nx\nthree\n");
  expect((await call("stat_path", { path })).fields).toMatchObject({
    path,
    type: "file",
    size: 14,
  });
  expect((await call("remove_path", { path: at("deep") })).isError).toBe(false);
  expect((await call("stat_path", { path })).text).toMatch(/^not_found: /);
});

test("edits of one file at once are all kept", async () => {
  await using world = await startMcpWorld();
  const { at, call } = await startCalls(world);
  const path = at("list.txt");
  const names = Array.from({ length: 20 }, (_, index) => `item${index};`);
  await call("write_file", { path, content: `${names.join("\n")}\n` });
  const edits = names.map((name) =>
    call("edit_file", { path, old_string: name, new_string: `new ${name}` }),
  );
  const replies = await Promise.all(edits);
  expect(replies.map(({ isError }) => isError)).not.toContain(true);
  const { text } = await call("read_file", { path });
  expect(text).toContain(`\n${names.map((name) => `new ${name}`).join("\n")}\n`);
});

test("a large file is read in parts that end with lines", async () => {
  await using world = await startMcpWorld();
  const { at, call } = await startCalls(world);
  const path = at("long.txt");
  const content = Array.from({ length: 500 }, (_, index) => `línea ${index}\n`).join("");
  await call("write_file", { path, content });
  let offset = 0;
  let joined = "";
  for (let count = 0; count < 20 && joined.length < content.length; count += 1) {
    const { text } = await call("read_file", { path, offset, limit: 1_000 });
    joined += /--- content\n([^]*)--- end$/.exec(text)?.[1] ?? "";
    offset = Number(/next_offset: ([0-9]+)/.exec(text)?.[1] ?? offset);
  }
  expect(joined).toBe(content);
  const beyond = await call("read_file", { path, offset: 1_000_000 });
  expect(beyond.text).toMatch(/^no bytes at 1000000 of [0-9]+ \| sandbox expires in/);
});

test("an empty file is no fault", async () => {
  await using world = await startMcpWorld();
  const { at, call } = await startCalls(world);
  await call("write_file", { path: at("empty"), content: "" });
  const { text, isError } = await call("read_file", { path: at("empty") });
  expect([isError, text.startsWith("no bytes at 0 of 0")]).toEqual([false, true]);
});

test("an image is shown as one, other bytes only on request", async () => {
  await using world = await startMcpWorld();
  const { sandboxId, at, call } = await startCalls(world);
  await call("write_file", { path: at("p.png"), content: PIXEL, encoding: "base64" });
  const { content } = await world.host.client.callTool({
    name: "read_file",
    arguments: { sandbox_id: sandboxId, path: at("p.png") },
  });
  expect(content).toEqual([
    { type: "text", text: expect.stringMatching(/^[0-9]+ bytes \| image\/png/) },
    { type: "image", data: PIXEL, mimeType: "image/png" },
  ]);
  await call("write_file", { path: at("b.bin"), content: "AAEC/w==", encoding: "base64" });
  const refused = await call("read_file", { path: at("b.bin") });
  expect([refused.isError, refused.text]).toEqual([
    true,
    expect.stringMatching(
      /^invalid_argument: .*b\.bin is binary \(4 B, .*Repeat with encoding=base64/,
    ),
  ]);
  const read = await call("read_file", { path: at("b.bin"), encoding: "base64" });
  expect(read.text).toContain("--- content\nAAEC/w==\n--- end");
});

test("a directory is listed in pages", async () => {
  await using world = await startMcpWorld();
  const { at, call } = await startCalls(world);
  for (const name of ["d/a", "d/b/c", "d/e"]) {
    await call("write_file", { path: at(name), content: "x" });
  }
  const whole = await call("list_directory", { path: at("d"), depth: 2 });
  const names = [...whole.text.matchAll(/^([-d]) .*\/d\/(.*)$/gm)].map(([, type, name]) => [
    type,
    name,
  ]);
  expect(names).toEqual([
    ["-", "a"],
    ["d", "b"],
    ["-", "b/c"],
    ["-", "e"],
  ]);
  const page = await call("list_directory", { path: at("d"), depth: 2, offset: 1, limit: 2 });
  expect(page.text).toMatch(/^4 entries \| 1 more: offset=3 \|/);
  const file = await call("list_directory", { path: at("d/a") });
  expect(file.text).toMatch(/^invalid_argument: .*For a file use read_file\.$/);
});

test("a source that cannot be deleted is told", async () => {
  await using world = await startMcpWorld();
  const { at, call } = await startCalls(world);
  await call("write_file", { path: at("1"), content: "a" });
  const wish = { sources: [at("1"), "/proc/version"], destination: at("all") };
  expect((await call("compose_files", wish)).text).toMatch(
    /^joined 2 files into \S+ \| sources that are still there: \/proc\/version \|/,
  );
});

test("files are joined in order, and the sources are gone", async () => {
  await using world = await startMcpWorld();
  const { at, call } = await startCalls(world);
  await call("write_file", { path: at("1"), content: "a" });
  await call("write_file", { path: at("2"), content: "b" });
  const wish = { sources: [at("2"), at("1")], destination: at("all") };
  expect((await call("compose_files", wish)).text).toContain("joined 2 files");
  expect((await call("read_file", { path: at("all") })).text).toContain("--- content\nba\n--- end");
  const again = await call("compose_files", wish);
  expect([again.isError, again.text]).toEqual([
    true,
    expect.stringMatching(/^not_found: source \S+ is missing\. Nothing was changed\.$/),
  ]);
});

test.for(["/", "~", "~/", ".", "./..", "/home/user", "/root/", "//home//x/../y", "../home/user"])(
  "removing %s as a whole is refused",
  async (path) => {
    await using world = await startMcpWorld();
    const input = { sandbox_id: "i00000000000000000000", path };
    const { isError, text } = await world.call("remove_path", input);
    expect([isError, text.startsWith("invalid_argument:")]).toEqual([true, true]);
  },
);

test("changes are told to the one who waits, and kept for the next call", async () => {
  await using world = await startMcpWorld();
  const { at, call } = await startCalls(world);
  await call("write_file", { path: at("w/keep"), content: "x" });
  const begun = await call("watch_path", { path: at("w"), wait_seconds: 0 });
  const watcherId = /^watcher_id: ([^ ]+) \| no change/.exec(begun.text)?.[1];
  await call("write_file", { path: at("w/new"), content: "x" });
  const first = await call("watch_path", { watcher_id: watcherId, wait_seconds: 10 });
  expect(first.text).toContain("--- changes\ncreate new\n");
  const waiting = call("watch_path", { watcher_id: watcherId, wait_seconds: 10, close: true });
  await call("remove_path", { path: at("w/new") });
  const second = await waiting;
  expect(second.text).toMatch(/watcher ended[^]*remove new\n/);
  const third = await call("watch_path", { watcher_id: watcherId, wait_seconds: 0 });
  expect(third.text).toMatch(/^not_found: .*Call watch_path with path to start a new one\.$/);
});

test("a watch needs exactly one of path and watcher_id", async () => {
  await using world = await startMcpWorld();
  const { call } = await startCalls(world);
  expect((await call("watch_path", {})).text).toBe(
    "invalid_argument: give either path or watcher_id. Correct the arguments, then call again.",
  );
});

test.runIf(process.getuid?.() === 0)(
  "an edit leaves a file to its owner, also by a link",
  async () => {
    await using world = await startMcpWorld();
    const sandbox_id = await world.createSandbox();
    const at = (name: string) => `${world.folder}/${name}`;
    for (const name of ["plain", "linked", "number"])
      await writeFile(at(name), "one", { mode: 0o640 });
    await symlink("linked", at("link"));
    const { stdout } = await promisify(execFile)("id", ["-u", "nobody"]);
    await chown(at("plain"), Number(stdout), 0);
    await chown(at("linked"), Number(stdout), 0);
    await chown(at("number"), 54_321, 0);
    for (const name of ["plain", "link", "number"]) {
      const edit = { sandbox_id, path: at(name), old_string: "one", new_string: "two" };
      expect((await world.call("edit_file", edit)).text).toContain("replaced 1 of 1");
    }
    const owners = await Promise.all(
      ["plain", "linked", "number"].map(async (name) => {
        const { uid, mode } = await stat(at(name));
        return [name, uid === Number(stdout), mode & 0o777, await readFile(at(name), "utf8")];
      }),
    );
    expect(owners).toEqual([
      ["plain", true, 0o640, "two"],
      ["linked", true, 0o640, "two"],
      ["number", false, 0o640, "two"],
    ]);
  },
);
