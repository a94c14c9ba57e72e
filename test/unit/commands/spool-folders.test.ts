/** Where output is kept: one folder for those who may see the same, apart for all others. */

import { expect, test } from "vitest";
import { localSpoolFolder, spoolFolderOf } from "../../../src/commands/service/spool-folders.ts";
import { loadConfig } from "../../../src/config.ts";

function folderFor(environment: Readonly<Record<string, string>>): string {
  const loaded = loadConfig({ SANDBOX_MCP_HOME: "/h", ...environment }, []);
  if (!("config" in loaded)) throw new Error(loaded.faults.join());
  return spoolFolderOf(loaded.config);
}

test("servers of this machine's own service share one folder, teams have their own", () => {
  expect([folderFor({}), localSpoolFolder("/h"), localSpoolFolder("/h", "blue")]).toEqual([
    "/h/spool/local",
    "/h/spool/local",
    "/h/spool/team-blue",
  ]);
});

test("a remote service has one for each address and key, which does not show the key", () => {
  const folder = folderFor({ E2B_API_KEY: "e2b_secret" });
  expect(folder).toMatch(/^\/h\/spool\/remote-[0-9a-f]{16}$/);
  const others = [
    folderFor({ E2B_API_KEY: "e2b_other" }),
    folderFor({ E2B_API_KEY: "e2b_secret", E2B_DOMAIN: "example.org" }),
    folderFor({ E2B_API_KEY: "e2b_secret", E2B_API_URL: "https://api.example.org" }),
  ];
  expect(new Set([folder, ...others]).size).toBe(4);
  expect(folderFor({ E2B_API_KEY: "e2b_secret" })).toBe(folder);
});
