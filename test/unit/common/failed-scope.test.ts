/** A failure is told as it is where the end of its scope (`using`) fails after it as well. */

import { expect, test } from "vitest";
import { causeCode, errorText, SandboxError, toSandboxError } from "../../../src/common/errors.ts";
import { describeError } from "../../../src/common/log.ts";
import { shortageOf } from "../../../src/common/shortage.ts";

/** What leaves `depth` scopes, each of which fails at its end, when the innermost throws `fault`. */
async function thrownBy(fault: Error, depth: number): Promise<unknown> {
  try {
    await fail(fault, depth);
  } catch (error) {
    return error;
  }
  throw new Error("nothing was thrown");
}

async function fail(fault: Error, depth: number): Promise<void> {
  if (depth === 0) throw fault;
  await using scope = new AsyncDisposableStack();
  scope.defer(async () => {
    throw new Error(`end ${depth}`);
  });
  await fail(fault, depth - 1);
}

test.for([1, 3])("the first of the failures counts, of %i scopes", async (depth) => {
  const fault = new SandboxError("not_found", "no such sandbox");
  const thrown = await thrownBy(fault, depth);
  expect(thrown).toBeInstanceOf(SuppressedError);
  expect(toSandboxError(thrown, "create")).toBe(fault);
  expect(errorText(thrown)).toBe("no such sandbox");
});

test("its code is found, also below a cause", async () => {
  const fault = Object.assign(new Error("open: too many"), { code: "EMFILE" });
  const thrown = await thrownBy(fault, 2);
  expect(causeCode(new Error("outer", { cause: thrown }))).toBe("EMFILE");
  expect(shortageOf(thrown)?.message).toContain("open files");
});

test("a limit of file sizes is a shortage, told with what sets it", async () => {
  const fault = Object.assign(new Error("file too large, copyfile"), { code: "EFBIG" });
  expect(toSandboxError(await thrownBy(fault, 1), "daemon")).toMatchObject({
    code: "unavailable",
    message: "daemon: a file is larger than the service may write",
    hint: expect.stringContaining("ulimit -f"),
  });
});

test("a log line has both failures, and all of several", async () => {
  const thrown = await thrownBy(new Error("first"), 1);
  const both = describeError(thrown).causes ?? [];
  expect(both.map(({ message }) => message)).toEqual(["first", "end 1"]);
  const several = new AggregateError([new Error("a"), new Error("b")], "two");
  const all = describeError(several).causes ?? [];
  expect(all.map(({ message }) => message)).toEqual(["a", "b"]);
});
