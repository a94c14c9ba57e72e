/** What files turn out to be: pictures by their bytes, encodings and line ends that are told. */

import { expect, test } from "vitest";
import { startMcpWorld, type McpWorld } from "../../support/mcp/mcp-sandbox.ts";

async function startCalls(world: McpWorld) {
  const sandbox_id = await world.createSandbox();
  const at = (name: string) => `${world.folder}/${name}`;
  const call = (tool: string, input: object) => world.call(tool, { sandbox_id, ...input });
  const put = (name: string, bytes: Buffer) =>
    call("write_file", {
      path: at(name),
      content: bytes.toString("base64"),
      encoding: "base64",
    });
  const raw = async (name: string) =>
    (
      await world.host.client.callTool({
        name: "read_file",
        arguments: { sandbox_id, path: at(name) },
      })
    ).content;
  return { at, call, put, raw };
}

const PIXEL = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);

test("only what every provider takes as a picture is one", async () => {
  await using world = await startMcpWorld();
  const { at, call, put, raw } = await startCalls(world);
  await put("picture.txt", PIXEL);
  expect(await raw("picture.txt")).toEqual([
    { type: "text", text: expect.stringMatching(/ bytes \| image\/png \| 1 x 1 pixels/) },
    { type: "image", mimeType: "image/png", data: PIXEL.toString("base64") },
  ]);
  const wide = Buffer.from(PIXEL);
  wide.writeUInt32BE(8_001, 16);
  await put("wide.png", wide);
  await put("large.png", Buffer.concat([PIXEL, Buffer.alloc(2_000_000)]));
  expect(await raw("large.png")).toMatchObject([{ type: "text" }, { type: "image" }]);
  await call("run_process", {
    cmd: "sh",
    args: ["-c", `cat large.png large.png > twice.png`],
    cwd: at(""),
  });
  await put("cut.png", PIXEL.subarray(0, 20));
  await put("half.png", PIXEL.subarray(0, 60));
  await put("text.png", Buffer.from("no picture\n"));
  const told = await Promise.all(
    ["wide.png", "twice.png", "cut.png", "half.png", "text.png"].map((name) =>
      call("read_file", { path: at(name) }),
    ),
  );
  expect(told.map(({ text }) => text)).toEqual([
    expect.stringMatching(
      /^invalid_argument: \S+wide\.png is binary \([0-9]+ B, image\/png of 8001 x 1 pixels; only sides up to 8000 are shown\)\. Make a smaller copy with run_process/,
    ),
    expect.stringMatching(
      /is binary \(4 MB, image\/png of more than 3\.8 MB, too large to be shown\)\. Make a smaller copy with run_process, or use download_url/,
    ),
    expect.stringMatching(
      /is binary \(20 B, begins as image\/png, but its header is broken\)\. Repeat/,
    ),
    expect.stringMatching(
      /is binary \(60 B, begins as image\/png, but a part of it is missing or broken\)/,
    ),
    expect.stringMatching(
      /\| text, though its name says image\/png \|[^]*--- content\nno picture\n/,
    ),
  ]);
});

test.for([
  { what: "whole", input: {}, told: /^bytes 0-69 of 70 \| image\/png \| binary: [^|]+ \| / },
  {
    what: "from its second byte",
    input: { offset: 1 },
    told: /^bytes 1-69 of 70 \| image\/png \| binary: /,
  },
  {
    what: "a part that is text",
    input: { offset: 1, limit: 3 },
    told: /^bytes 1-3 of 70 [^\n]*\| image\/png \| sandbox /,
  },
])("a picture that is read as text is not called one by its name alone: $what", async (row) => {
  await using world = await startMcpWorld();
  const { at, call, put } = await startCalls(world);
  await put("a.png", PIXEL);
  const { text } = await call("read_file", { path: at("a.png"), encoding: "text", ...row.input });
  expect(text).toMatch(row.told);
});

test("line ends and encodings are told, and an edit keeps the line ends", async () => {
  await using world = await startMcpWorld();
  const { at, call, put } = await startCalls(world);
  await put("w.txt", Buffer.from("one\r\ntwo\r\n"));
  const path = at("w.txt");
  expect((await call("read_file", { path })).text).toMatch(
    /\| line ends: CRLF \|[^]*--- content\none\ntwo\n--- end$/,
  );
  const edit = { path, old_string: "one\ntwo", new_string: "1\n2" };
  expect((await call("edit_file", edit)).text).toMatch(
    /^replaced 1 of 1 occurrences .* \| lines: 1 \| line ends kept: CRLF \|/,
  );
  const read = await call("read_file", { path, encoding: "base64" });
  expect(read.text).toContain(Buffer.from("1\r\n2\r\n").toString("base64"));
  await put("l.txt", Buffer.from("caf\u00e9\n", "latin1"));
  const latin = await call("read_file", { path: at("l.txt") });
  expect(latin.text).toMatch(
    /\| not UTF-8: shown as windows-1252, a guess \|[^]*--- content\ncafé\n/,
  );
  const refused = await call("edit_file", { ...edit, path: at("l.txt") });
  expect(refused.text).toMatch(
    /^invalid_argument: \S+ is not UTF-8 text: it looks like windows-1252\. Convert it with iconv/,
  );
});

test("escapes do not make a reply larger than its limit, and the next offset goes on", async () => {
  await using world = await startMcpWorld();
  const { at, call, put } = await startCalls(world);
  const bytes = Buffer.from("\u0001\u0002x".repeat(2_000));
  await put("control", bytes);
  let read = "";
  let offset = 0;
  const sizes: number[] = [];
  while (offset < bytes.length) {
    const input = { path: at("control"), encoding: "text", limit: 1_000, offset };
    const { text } = await call("read_file", input);
    const content = text.split("\n").slice(2, -1).join("\n");
    sizes.push(Buffer.byteLength(content));
    read += content;
    const [, first, last] = /^bytes (\d+)-(\d+) of 6000/.exec(text) ?? [];
    expect(Number(first)).toBe(offset);
    offset = Number(last) + 1;
    expect(text.includes(`next_offset: ${offset}`)).toBe(offset < bytes.length);
  }
  expect(Math.max(...sizes)).toBeLessThanOrEqual(1_000);
  expect(read.replaceAll(/\s/g, "")).toBe(String.raw`\u0001\u0002x`.repeat(2_000));
});

test.for([
  { order: "little", swap: (bytes: Buffer) => bytes },
  { order: "big", swap: (bytes: Buffer) => bytes.swap16() },
])("no page of $order-endian UTF-16 ends within a character of four bytes", async ({ swap }) => {
  await using world = await startMcpWorld();
  const { at, call, put } = await startCalls(world);
  const line = "a plain text of many characters".repeat(4);
  const end = line.length * 2;
  await put("pair.txt", swap(Buffer.from(`${line}\u{1f600}${line}`, "utf16le")));
  const path = at("pair.txt");
  for (const limit of [end + 2, end + 3]) {
    const { text } = await call("read_file", { path, limit });
    expect(text).toContain(`| next_offset: ${end} |`);
    expect(text).toContain(`\n${line}\n--- end`);
  }
  const rest = await call("read_file", { path, offset: end });
  expect(rest.text).toContain(`\n\u{1f600}${line}\n--- end`);
});

test.for([1_000, 1_001, 1_002, 1_003])(
  "pages of a long line of %i bytes split no character",
  async (limit) => {
    await using world = await startMcpWorld();
    const { at, call, put } = await startCalls(world);
    const text = "aé漢\u{1F600}".repeat(400);
    await put("line", Buffer.from(text));
    let shown = "";
    for (let offset: number | undefined = 0; offset !== undefined;) {
      const page = await call("read_file", { path: at("line"), offset, limit });
      shown += /--- content\n(?<content>.*)\n--- end/.exec(page.text)?.groups?.["content"] ?? "";
      const next = /next_offset: (\d+)/.exec(page.text)?.[1];
      offset = next === undefined ? undefined : Number(next);
    }
    expect(shown).toBe(text);
  },
);

test("a page of a part of a character alone goes on", async () => {
  await using world = await startMcpWorld();
  const { at, call, put } = await startCalls(world);
  await put("short", Buffer.from("é漢"));
  const page = await call("read_file", { path: at("short"), limit: 1 });
  expect(page.text).toMatch(/^bytes 0-0 of 5 \| next_offset: 1 /);
});
