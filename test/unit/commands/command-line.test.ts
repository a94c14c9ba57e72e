import { chmod, mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { commandLine } from "../../../src/commands/program/command-line.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

async function install(folder: string) {
  const program = join(folder, "node_modules/sandbox-mcp/dist/main.js");
  await mkdir(join(folder, "node_modules/sandbox-mcp/dist"), { recursive: true });
  await mkdir(join(folder, "node_modules/.bin"), { recursive: true });
  await mkdir(join(folder, "bin"));
  await writeFile(program, "");
  await chmod(program, 0o755);
  await symlink(program, join(folder, "node_modules/.bin/sandbox-mcp"));
  return program;
}

function typed(file: string, searchPath: string, givenHome?: string): string {
  const words = vi.spyOn(process, "argv", "get").mockReturnValue(["node", file]);
  try {
    return commandLine({ searchPath, givenHome }, "doctor");
  } finally {
    words.mockRestore();
  }
}

test("a command is one that can be typed, for the home that was chosen", async () => {
  await using folder = await makeTempFolder();
  const program = await install(folder.path);
  const paths = { npx: join(folder.path, "node_modules/.bin"), bin: join(folder.path, "bin") };
  expect(typed(join(paths.npx, "sandbox-mcp"), `${paths.npx}:${paths.bin}`)).toBe(
    "npx -y sandbox-mcp doctor",
  );
  expect(typed(join(folder.path, "none"), paths.bin, "/it's here")).toBe(
    String.raw`npx -y sandbox-mcp doctor --home '/it'\''s here'`,
  );
  const own = join(folder.path, "main.js");
  await writeFile(own, "");
  expect(typed(own, paths.bin, "/home/h")).toBe(`node ${own} doctor --home /home/h`);
  await symlink(program, join(paths.bin, "sandbox-mcp"));
  expect(typed(join(paths.bin, "sandbox-mcp"), `${paths.npx}:${paths.bin}`)).toBe(
    "sandbox-mcp doctor",
  );
});
