/** The streaming reader of multipart bodies, whatever the pieces it is fed in. */

import { expect, test } from "vitest";
import { readParts } from "../../../src/envd/files/multipart.ts";

async function* inPieces(body: string, size: number): AsyncGenerator<Buffer> {
  const bytes = Buffer.from(body);
  for (let start = 0; start < bytes.length; start += size) {
    yield bytes.subarray(start, start + size);
  }
}

async function parse(body: string, size = 7, boundary = "XX") {
  const parts: { headers: Record<string, string>; body: string }[] = [];
  for await (const part of readParts(inPieces(body, size), boundary)) {
    const chunks: Buffer[] = [];
    for await (const chunk of part.body) chunks.push(chunk);
    parts.push({
      headers: Object.fromEntries(part.headers),
      body: Buffer.concat(chunks).toString(),
    });
  }
  return parts;
}

const TWO = [
  "--XX",
  'Content-Disposition: form-data; name="file"; filename="ä"',
  "Content-Type: text/plain",
  "",
  "one\r\n--XY\r\n--XXtra\r\n",
  "--XX  ",
  "",
  "",
  "--XX--",
  "epilogue",
].join("\r\n");

test.for([1, 2, 3, 5, 8, 13, 1000])("two parts arrive in pieces of %i bytes", async (size) => {
  expect(await parse(TWO, size)).toEqual([
    {
      headers: {
        "content-disposition": 'form-data; name="file"; filename="ä"',
        "content-type": "text/plain",
      },
      body: "one\r\n--XY\r\n--XXtra\r\n",
    },
    { headers: {}, body: "" },
  ]);
});

test("a preamble is skipped, a body that nobody reads too", async () => {
  const body = "hello\r\n--XX\r\na: 1\r\n\r\nskipped\r\n--XX\r\na: 2\r\n\r\nkept\r\n--XX--\r\n";
  const names: string[] = [];
  for await (const part of readParts(inPieces(body, 4), "XX")) {
    names.push(part.headers.get("a") ?? "");
  }
  expect(names).toEqual(["1", "2"]);
});

test("a body without parts has none", async () => {
  expect(await parse("--XX--\r\n")).toEqual([]);
});

test.for([
  ["nothing at all", ""],
  ["no delimiter", "text"],
  ["cut in the headers", "--XX\r\na: 1\r\n"],
  ["cut in the content", "--XX\r\n\r\ncontent"],
  ["cut before the end", "--XX\r\n\r\ncontent\r\n--XX"],
] as const)("%s is a malformed form", async ([, body]) => {
  await expect(parse(body)).rejects.toThrow("error reading form: unexpected EOF");
});

test("headers without an end are refused, not gathered", async () => {
  const body = `--XX\r\na: ${"x".repeat(40_000)}`;
  await expect(parse(body, 1000)).rejects.toThrow(
    "error reading form: headers of a part are too long",
  );
});

test("too many parts are refused", async () => {
  const body = `${"--XX\r\n\r\n\r\n".repeat(10_001)}--XX--`;
  await expect(parse(body, 65_536)).rejects.toThrow("error reading form: more than 10000 parts");
});
