/** Programs of the host as the engine runs them. */

import { expect, test } from "vitest";
import { runProgram } from "../../../src/engine/host/run-program.ts";

test("a program gets its arguments as they are and nothing of our environment", async () => {
  const script = 'printf "%s|" "$@"; env';
  const output = await runProgram(["sh", "-c", script, "sh", "a b", "$HOME", "; exit 1"]);
  const [args, ...variables] = output.split("\n");
  expect(args).toContain("a b|$HOME|; exit 1|");
  expect([args, ...variables].join("\n")).not.toMatch(/^HOME=/m);
});

test("the last words of a program that fails are quoted", async () => {
  const failing = runProgram([
    "sh",
    "-c",
    String.raw`printf 'first\nbad \033[31mthing\n' >&2; exit 3`,
  ]);
  await expect(failing).rejects.toMatchObject({
    code: "unavailable",
    message: String.raw`sh: first; bad \u001b[31mthing`,
  });
});

test("a program that does not exist is unavailable", async () => {
  await expect(runProgram(["no-such-program-here"])).rejects.toMatchObject({ code: "unavailable" });
});

test("a program that hangs is ended with its helpers", async () => {
  const hanging = runProgram(["sh", "-c", "sleep 60 & sleep 60"], { timeoutMs: 100 });
  await expect(hanging).rejects.toMatchObject({ code: "deadline_exceeded" });
});

test("an abort ends the program", async () => {
  const stop = new AbortController();
  const running = runProgram(["sleep", "60"], { signal: stop.signal });
  stop.abort();
  await expect(running).rejects.toMatchObject({ code: "canceled" });
  await expect(runProgram(["true"], { signal: stop.signal })).rejects.toMatchObject({
    code: "canceled",
  });
});

test("lines of the error output arrive one by one", async () => {
  const lines: string[] = [];
  await runProgram(["sh", "-c", "echo one >&2; echo two >&2"], {
    onLine: (line) => lines.push(line),
  });
  expect(lines).toEqual(["one", "two"]);
});
