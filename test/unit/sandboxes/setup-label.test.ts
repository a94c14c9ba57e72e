import { expect, test } from "vitest";
import { readSetupLabel, withSetupLabel } from "../../../src/sandboxes/templates/setup-label.ts";
import type { TemplateSetup } from "../../../src/store/store.ts";

const NAME = "sandbox-mcp.setup";
const WHOLE: TemplateSetup = {
  environment: { GREETING: "hello" },
  startCommand: "exec serve --name 'é'",
  readyCommand: "waitForPort 8080",
  cpus: 4,
  memoryMb: 2_048,
  isolation: "gvisor",
};

test("what a build gives its sandboxes comes back, except what an image has by itself", () => {
  const { environment, ...rest } = WHOLE;
  const labels = withSetupLabel([], { setup: WHOLE, defaultWorkdir: "/" });
  expect(readSetupLabel(labels)).toEqual({ ...rest, workdir: "/" });
  expect(JSON.stringify(labels)).not.toContain(environment["GREETING"]);
});

test("the label of an earlier export does not stay", () => {
  const labels = [
    { name: "maintainer", value: "me" },
    { name: NAME, value: '{"startCommand":"old"}' },
  ];
  const none = { environment: {}, startCommand: "", readyCommand: "" };
  expect(withSetupLabel(labels, { setup: none, defaultWorkdir: "/home/user" })).toEqual([
    { name: "maintainer", value: "me" },
  ]);
  const again = withSetupLabel(labels, { setup: WHOLE, defaultWorkdir: "/work" });
  expect(again.map(({ name }) => name)).toEqual([NAME, "maintainer"]);
  expect(readSetupLabel(again)).toMatchObject({ startCommand: WHOLE.startCommand });
});

test("an archive of before has no commands", () => {
  const labels = [{ name: "maintainer", value: "me" }];
  expect(readSetupLabel(labels)).toEqual({ startCommand: "", readyCommand: "" });
});

test("what a later version writes besides is left out", () => {
  const value = '{"startCommand":"serve","later":[1]}';
  expect(readSetupLabel([{ name: NAME, value }])).toEqual({
    startCommand: "serve",
    readyCommand: "",
  });
});

test.for([
  ["no JSON", "serve"],
  ["no object", '["serve"]'],
  ["nothing", ""],
  ["deep", "[".repeat(1_000_000)],
  ["a number", '{"startCommand":1}'],
  ["NUL", String.raw`{"startCommand":"a\u0000b"}`],
  ["half a pair", String.raw`{"readyCommand":"\ud800"}`],
  ["long", JSON.stringify({ startCommand: "a".repeat(98_305) })],
  ["CPUs beyond the bound", '{"cpus":1025}'],
  ["no CPUs", '{"cpus":0}'],
  ["parts of CPUs", '{"cpus":1.5}'],
  ["memory beyond the bound", '{"memoryMb":1048577}'],
  ["too little memory", '{"memoryMb":64}'],
  ["another level", '{"isolation":"none"}'],
  ["another directory", '{"workdir":"/etc"}'],
] as const)("a label is refused: %s", ([, value]) => {
  expect(() => readSetupLabel([{ name: NAME, value }])).toThrow(
    expect.objectContaining({ code: "failed_precondition" }),
  );
});
