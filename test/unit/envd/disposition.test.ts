/** Names of files in headers, written and read. */

import { expect, test } from "vitest";
import { inlineDisposition, parseParameterized } from "../../../src/envd/files/disposition.ts";

test.for([
  ["a.txt", "inline; filename=a.txt"],
  [".env", "inline; filename=.env"],
  ["a b.txt", 'inline; filename="a b.txt"'],
  ['a"b.txt', 'inline; filename="a\\"b.txt"'],
  ["a\\b.txt", 'inline; filename="a\\\\b.txt"'],
  ["ä.txt", "inline; filename*=utf-8''%C3%A4.txt"],
  ["a\nb", "inline; filename*=utf-8''a%0Ab"],
] as const)("the name %j is written as %s", ([name, header]) => {
  expect(inlineDisposition(name)).toBe(header);
});

test.for([
  ['form-data; name="file"; filename="/home/user/a b.txt"', "file", "/home/user/a b.txt"],
  ["Form-Data; NAME=file; FileName=x", "file", "x"],
  ['form-data; name="file"; filename="C:\\dir\\x"', "file", "C:\\dir\\x"],
  ['form-data; name="file"; filename="a\\"b"', "file", 'a"b'],
  ['form-data; name="file"; filename="a%22b"', "file", "a%22b"],
  ['form-data; name="file"; filename="ä"', "file", "ä"],
  ["form-data; name=file; filename=x; filename*=utf-8''%C3%A4", "file", "ä"],
  ["form-data; name=file; filename=x; filename*=utf-8''%ZZ", "file", "x"],
  ['form-data; name="file"', "file", undefined],
  ['form-data; name="file"; filename="never ends', "file", undefined],
] as const)("%s", ([header, name, filename]) => {
  const { value, parameters } = parseParameterized(header);
  expect([value, parameters.get("name"), parameters.get("filename")]).toEqual([
    "form-data",
    name,
    filename,
  ]);
});
