/** Which tools a server offers. */

import { expect, test } from "vitest";
import { selectTools } from "../../../src/mcp/selection.ts";
import { TOOLS } from "../../../src/mcp/tools/index.ts";

function namesOf(selection: Parameters<typeof selectTools>[1]): readonly string[] {
  return selectTools(TOOLS, selection).map(({ name }) => name);
}

test("core leaves out what all has", () => {
  const core = namesOf({ toolset: "core", isReadOnly: false });
  const all = namesOf({ toolset: "all", isReadOnly: false });
  expect(all.filter((name) => !core.includes(name))).toEqual([
    "build_template",
    "delete_snapshot",
    "fork_sandbox",
    "get_metrics",
    "get_sandbox_url",
    "get_template",
    "list_processes",
    "list_snapshots",
    "list_templates",
    "make_directory",
    "move_path",
    "pause_sandbox",
  ]);
});

test("names select exactly these tools, whatever their toolset", () => {
  const names = ["read_file", "pause_sandbox"];
  expect(namesOf({ toolset: "core", names, isReadOnly: false })).toEqual([
    "pause_sandbox",
    "read_file",
  ]);
});

test("read-only leaves only tools that change nothing", () => {
  const names = ["read_file", "write_file", "list_directory"];
  expect(namesOf({ toolset: "core", names, isReadOnly: true })).toEqual([
    "list_directory",
    "read_file",
  ]);
});

test("no tool at all is refused", () => {
  const selection = { toolset: "core", names: ["write_file"], isReadOnly: true } as const;
  expect(() => namesOf(selection)).toThrow("--read-only leaves none of the tools of --tools");
});

test("a name that no tool has is named", () => {
  expect(() => namesOf({ toolset: "core", names: ["nope"], isReadOnly: false })).toThrow(
    "no tool is called nope",
  );
});
