/** Secrets derived from the seed of a home. */

import { stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createSecrets, openSecrets } from "../../../src/sandboxes/secrets.ts";
import { openStore } from "../../../src/store/sqlite.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

test("tokens are 64 hex digits, stable, and different for each sandbox and use", () => {
  const secrets = createSecrets(Buffer.alloc(32, 7));
  const tokens = [
    secrets.accessToken("ia"),
    secrets.accessToken("ib"),
    secrets.trafficToken("ia"),
    createSecrets(Buffer.alloc(32, 8)).accessToken("ia"),
  ];
  expect(new Set(tokens).size).toBe(4);
  for (const token of tokens) expect(token).toMatch(/^[0-9a-f]{64}$/);
  expect(secrets.accessToken("ia")).toBe(tokens[0]);
});

test("what is sealed opens under the same seed only", () => {
  const secrets = createSecrets(Buffer.alloc(32, 7));
  const sealed = secrets.seal("KEY=välue");
  expect(sealed).not.toContain("KEY");
  expect(secrets.unseal(sealed)).toBe("KEY=välue");
  const other = createSecrets(Buffer.alloc(32, 8));
  expect(() => other.unseal(sealed)).toThrow(expect.objectContaining({ code: "internal" }));
});

test("every process of a home has the same seed, which only its user reads", async () => {
  await using home = await makeTempFolder();
  using store = openStore({ path: join(home.path, "state.db") });
  const opened = await Promise.all([
    openSecrets(home.path, store),
    openSecrets(home.path, store),
    openSecrets(home.path, store),
  ]);
  const tokens = opened.map((secrets) => secrets.accessToken("ia"));
  expect(new Set(tokens).size).toBe(1);
  expect((await stat(join(home.path, "seed"))).mode & 0o777).toBe(0o600);
});

test("another seed than that of the database is refused", async () => {
  await using home = await makeTempFolder();
  using store = openStore({ path: ":memory:" });
  await openSecrets(home.path, store);
  await writeFile(join(home.path, "seed"), Buffer.alloc(32, 1));
  await expect(openSecrets(home.path, store)).rejects.toMatchObject({
    code: "failed_precondition",
  });
});
