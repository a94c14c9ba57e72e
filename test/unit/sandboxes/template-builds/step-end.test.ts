/** How the end of a step's command is told from its output, however the pieces are cut. */

import { expect, test } from "vitest";
import { createStepEnd } from "../../../../src/sandboxes/template-builds/step-end.ts";

function follow(text: string, size: number, end = createStepEnd()) {
  const bytes = Buffer.from(text);
  const shown: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; at += size) {
    shown.push(end.take("stdout", bytes.subarray(at, at + size)));
  }
  shown.push(end.rest("stdout"));
  return Buffer.concat(shown).toString();
}

test.for([1, 2, 3, 7, 40, 73, 1_000])("pieces of %i bytes lose nothing", (size) => {
  const end = createStepEnd();
  const [first, second] = end.words;
  const output = `é ${first} ${second} ${first}${first}`;
  expect(follow(`${output}${first}${second} 143\nlate`, size, end)).toBe(output);
  expect(end.exitCode()).toBeUndefined();
  end.take("stderr", Buffer.from(`${first}${second} 143\n`));
  expect(end.exitCode()).toBe(143);
});

test("a command that ended its shell has its whole output", () => {
  const end = createStepEnd();
  const output = `all${end.words.join("").slice(0, 20)}`;
  expect(follow(output, 5, end)).toBe(output);
  expect(end.exitCode()).toBeUndefined();
});
