/** Metadata of files through the unmodified `e2b` package, in a real container. */

import assert from "node:assert/strict";
import { Sandbox } from "e2b";
import { afterAll, beforeAll, expect, test } from "vitest";
import { takeCensus, type Census } from "../support/census.ts";
import { startServe, type TestServe } from "../support/serve.ts";

let before: Census;
let serve: TestServe;
let sandbox: Sandbox;

beforeAll(async () => {
  before = await takeCensus();
  serve = await startServe();
  sandbox = await Sandbox.create("base", {
    apiKey: serve.apiKey,
    apiUrl: serve.url,
    sandboxUrl: serve.url,
  });
});

afterAll(async () => {
  await sandbox.kill();
  await serve[Symbol.asyncDispose]();
  assert.deepEqual(await takeCensus(), before);
});

const METADATA = { author: "someone", note: "two words" };

test.for([false, true])(
  "written, told, renamed, cleared (raw body: %s)",
  async (useOctetStream) => {
    const folder = useOctetStream ? "raw" : "form";
    const path = `${folder}/file.txt`;
    const options = { metadata: METADATA, useOctetStream };
    const written = await sandbox.files.write(path, "text", options);
    expect(written.metadata).toEqual(METADATA);
    expect((await sandbox.files.getInfo(path)).metadata).toEqual(METADATA);
    const listed = await sandbox.files.list(folder);
    expect(listed.map((entry) => entry.metadata)).toEqual([METADATA]);
    const renamed = await sandbox.files.rename(path, `${folder}/moved.txt`);
    expect(renamed.metadata).toEqual(METADATA);
    const again = await sandbox.files.write(`${folder}/moved.txt`, "text", { useOctetStream });
    expect(again.metadata).toBeUndefined();
    expect((await sandbox.files.getInfo(`${folder}/moved.txt`)).metadata).toEqual(undefined);
  },
);

test("several files in one request have the same set", async () => {
  const files = ["one", "two"].map((name) => ({ path: `many/${name}`, data: name }));
  const written = await sandbox.files.write(files, { metadata: METADATA });
  expect(written.map((file) => file.metadata)).toEqual([METADATA, METADATA]);
});

test("programs and clients see the same attributes", async () => {
  await sandbox.files.write("shared", "text", { metadata: { a: "1" } });
  const program = [
    "import os",
    "print(os.getxattr('shared', 'user.e2b.a').decode())",
    "os.setxattr('shared', 'user.e2b.b', b'2')",
  ].join("; ");
  const result = await sandbox.commands.run(`python3 -c "${program}"`);
  expect(result.stdout).toBe("1\n");
  expect((await sandbox.files.getInfo("shared")).metadata).toEqual({ a: "1", b: "2" });
});

test("a set that could not be stored is refused before anything is written", async () => {
  for (const metadata of [{ "a b": "v" }, { a: "caf\u00e9" }, { a: "v".repeat(4090) }]) {
    await expect(sandbox.files.write("refused", "text", { metadata })).rejects.toThrow(/metadata/i);
  }
  expect(await sandbox.files.exists("refused")).toBe(false);
});
