/** Where the instructions of a Dockerfile begin and end: continued lines, comments and here-documents. */

import { expect, test } from "vitest";
import { readDockerfile } from "../../../src/commands/template-build/dockerfile.ts";

function commandsOf(lines: readonly string[]) {
  const { steps } = readDockerfile(["FROM a", ...lines].join("\n"), "Dockerfile");
  return steps.map(({ line, args }) => `${line} ${args.join(" ")}`);
}

test.for([
  // No here-documents.
  [
    ["RUN echo $((1 << X))", "RUN b"],
    ["2 echo $((1 << X))", "3 b"],
  ],
  [
    ['RUN bash -c "cat <<E"', "RUN b"],
    ['2 bash -c "cat <<E"', "3 b"],
  ],
  [
    ["RUN cat <<<E", "RUN b"],
    ["2 cat <<<E", "3 b"],
  ],
  [
    ['RUN ["cat", "<<E"]', "RUN b"],
    ["2 exec cat '<<E'", "3 b"],
  ],
  [
    ["RUN it's <<E", "RUN b"],
    ["2 it's <<E", "3 b"],
  ],
  // A document that is the whole command.
  [
    ["RUN <<E-F", "x", "E-F", "RUN b"],
    ["2 x", "5 b"],
  ],
  [
    ["RUN <<'E F'", "x $Y", "E F", "RUN b"],
    ["2 x $Y", "5 b"],
  ],
  [
    ["RUN 3<<E", "x", " E", "E", "RUN b"],
    ["2 x\n E", "6 b"],
  ],
  // Input.
  [
    ["RUN 3<<E cat /dev/fd/3", "x", "E", "RUN b"],
    ["2 3<<E cat /dev/fd/3\nx\nE\n", "5 b"],
  ],
  [
    ["RUN cat <<-E", "\tx", "\tE", "RUN b"],
    ["2 cat <<-E\n\tx\nE\n", "5 b"],
  ],
  // Lines that are continued.
  [["\\", "RUN a \\", "", "  # \\", "\\", "b"], ["2 a b"]],
  [
    ["R\\", "UN a \\ ", "\tb\\\\", "RUN c"],
    ["2 a \tb\\\\", "5 c"],
  ],
  [["run\ta\\"], ["2 a"]],
] as const)("%j runs %j", ([lines, commands]) => {
  expect(commandsOf(lines)).toEqual(commands);
});

test("a byte order mark and carriage returns are no part of an instruction", () => {
  const text = "\uFEFF# escape=\\\r\nFROM a\r\nRUN b \\\r\n  c\r\nRUN <<E\r\nd\r\nE\r\n";
  const { base, steps } = readDockerfile(text, "Dockerfile");
  expect(base).toBe("a");
  expect(steps.map(({ args }) => args)).toEqual([["b   c"], ["d"]]);
});

test("a directive behind another line is a comment", () => {
  expect(commandsOf(["# escape=`", "RUN b \\", " c"])).toEqual(["3 b  c"]);
});

test.for([
  ["# syntax=x\n# escape=`\nFROM a", "Dockerfile:2: another escape character than \\ is not"],
  ["FROM a\nRUN cat <<E>/x\ny\nE", "Dockerfile:2: RUN has a here-document E>/x that does not end"],
  ["FROM a\nCOPY <<A <<B /x\na\nA\n", "Dockerfile:2: COPY has a here-document B that does not end"],
  ["FROM a\n\nRUN cat << E\ny\nE", "Dockerfile:4: Y is not supported"],
] as const)("%j is refused", ([text, message]) => {
  expect(() => readDockerfile(text, "Dockerfile")).toThrow(message);
});
