/** Which login of a `config.json` is that of an image's registry. */

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { findImagePlace } from "../../../src/cluster/snapshots/image-place.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

async function findUser(reference: string, keys: readonly string[]): Promise<string | undefined> {
  await using folder = await makeTempFolder();
  const loginFile = join(folder.path, "config.json");
  const auths = keys.map((key) => [key, { username: key, password: "secret" }]);
  await writeFile(loginFile, JSON.stringify({ auths: Object.fromEntries(auths) }));
  const { place } = await findImagePlace(reference, { registry: "r.test/snapshots", loginFile });
  return place.credentials?.username;
}

test.for([
  ["r.test/a", ["r.test"], "r.test"],
  ["r.test/a", ["https://r.test"], "https://r.test"],
  ["r.test/a", ["https://r.test/"], "https://r.test/"],
  ["r.test/a", ["https://r.test/v1/"], "https://r.test/v1/"],
  ["r.test/a", ["https://r.test/v2"], "https://r.test/v2"],
  ["r.test:5000/a", ["http://R.test:5000/v2/"], "http://R.test:5000/v2/"],
  ["r.test/a", ["https://r.test/v1/", "r.test"], "r.test"],
  ["debian:12", ["https://index.docker.io/v1/"], "https://index.docker.io/v1/"],
  ["debian:12", ["index.docker.io"], "index.docker.io"],
  ["debian:12", ["docker.io"], "docker.io"],
  // Logins for a part of a registry, for another port or for another one.
  [
    "r.test/a",
    ["r.test/b", "https://r.test/v1/b", "r.test:443", "x.r.test", "r.test.x"],
    undefined,
  ],
  ["r.test/a", ["https://index.docker.io/v1/"], undefined],
] as const)("%s with logins for %j has %s", async ([reference, keys, user]) => {
  expect(await findUser(reference, keys)).toBe(user);
});
