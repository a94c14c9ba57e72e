/** The size that the command `template` shows: that of sandboxes, whatever settings the command itself has. */

import { userInfo } from "node:os";
import { expect, test, vi } from "vitest";
import { runTemplate } from "../../src/commands/templates/template.ts";
import { createSilentLog } from "../../src/common/log.ts";
import { loadConfig } from "../../src/config.ts";
import { startTestService } from "../support/service.ts";

/** What the command prints. */
async function print(words: readonly string[], home: string): Promise<string> {
  const loaded = loadConfig({}, ["template", ...words, "--home", home]);
  if ("faults" in loaded) throw new Error(loaded.faults.join("\n"));
  const write = vi.spyOn(process.stdout, "write").mockReturnValue(true);
  try {
    await runTemplate({ config: loaded.config, words, log: createSilentLog() });
    return write.mock.calls.map(([text]) => String(text)).join("");
  } finally {
    write.mockRestore();
  }
}

test("a template that sets its memory is shown with it", async () => {
  await using service = await startTestService({
    builtIns: [
      {
        name: "server",
        defaultUser: userInfo().username,
        defaultWorkdir: "/",
        find: async () => [],
        setup: { environment: {}, startCommand: "", readyCommand: "", memoryMb: 256 },
      },
    ],
  });
  expect(await print(["show", "server"], service.home)).toContain("size: 2 CPU, 256 MB\n");
  expect(await print(["list"], service.home)).toContain("  2 CPU 256 MB\n");
});

test("a template without a size of its own is shown with that of the service", async () => {
  await using service = await startTestService({
    limits: { memoryMb: 1024, cpus: 4, diskMb: 2048, pids: 512 },
  });
  expect(await print(["show", "base"], service.home)).toContain("size: 4 CPU, 1024 MB\n");
  expect(await print(["list"], service.home)).toContain("  4 CPU 1024 MB\n");
});
