import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { fields, frame, runPerl } from "../../support/daemon/perl-program.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

/** A reply without a fault that tells of so many paths, none of which has a name. */
const nothingOf = (paths: number) => frame(Buffer.alloc(4 + 4 * paths));
const faultOf = (errno: number) => frame(Buffer.of(0, 0, 0, errno));
const ENOENT = 2;
const E2BIG = 7;
const ENOTSUP = 95;

async function ask(...requests: readonly Buffer[]) {
  const { code, stdout } = await runPerl("attributes", {
    words: [process.arch],
    input: Buffer.concat(requests),
  });
  return { code, stdout };
}

test.for([
  ["one path without attributes", frame("r", fields("/")), nothingOf(1)],
  ["a path that is not there", frame("r", fields("/no/such", "/")), nothingOf(2)],
  ["no path", frame("r"), nothingOf(0)],
  ["nothing, not even a letter", frame(), nothingOf(0)],
  ["another letter, which reads", frame("?", fields("/")), nothingOf(1)],
  ["a last field without its end, which is none", frame("r", fields("/"), "/proc"), nothingOf(1)],
  ["a set for a path that is not there", frame("w", fields("/no/such", "a", "b")), faultOf(ENOENT)],
  ["a copy from a path that is not there", frame("c", fields("/no/such", "/")), nothingOf(0)],
] as const)("%s", async ([, request, reply]) => {
  expect(await ask(request)).toEqual({ code: 0, stdout: reply });
});

test("requests that come together are answered one by one", async () => {
  const { stdout } = await ask(frame("r", fields("/", "/")), frame("r", fields("/")));
  expect(stdout).toEqual(Buffer.concat([nothingOf(2), nothingOf(1)]));
});

test("a set is stored as it was given, and told so; or the file system has none", async () => {
  await using folder = await makeTempFolder();
  const path = join(folder.path, "file");
  await writeFile(path, "");
  const { code, stdout } = await ask(
    frame("w", fields(path, "name", "a value")),
    frame("r", fields(path)),
    frame("w", fields(path)),
    frame("r", fields(path)),
  );
  const kept = frame(Buffer.of(0, 0, 0, 0, 0, 0, 0, 1), frame("name"), frame("a value"));
  const [stored, none] = [nothingOf(1), faultOf(ENOTSUP)];
  const wants = [
    Buffer.concat([kept, kept, stored, stored]),
    Buffer.concat([none, stored, stored, stored]),
  ];
  expect(code).toBe(0);
  expect(wants).toContainEqual(stdout);
});

test("a reply that would be larger than 8 MiB is refused, and the next request is served", async () => {
  await using folder = await makeTempFolder();
  const path = join(folder.path, "file");
  await writeFile(path, "");
  const many = Array.from({ length: 3_000 }, () => path);
  const { code, stdout } = await ask(
    frame("w", fields(path, "name", "v".repeat(3_000))),
    frame("r", fields(...many)),
    frame("r", fields("/")),
  );
  const isKept = !stdout.subarray(0, 8).equals(faultOf(ENOTSUP));
  const reply = isKept ? faultOf(E2BIG) : nothingOf(many.length);
  expect(code).toBe(0);
  expect(stdout.subarray(4 + stdout.readUInt32BE(0))).toEqual(Buffer.concat([reply, nothingOf(1)]));
});

test.for([
  ["before its length", Buffer.alloc(0)],
  ["within its length", Buffer.of(0, 0, 0)],
  ["before its bytes", Buffer.of(0, 0, 0, 9)],
  ["within its bytes", Buffer.of(0, 0, 0, 9, 0x72, 0x2f)],
  ["of four gigabytes that never come", Buffer.of(255, 255, 255, 255, 0x72)],
] as const)("an end of the input %s ends it, without a word", async ([, input]) => {
  expect(await ask(input)).toEqual({ code: 0, stdout: Buffer.alloc(0) });
});
