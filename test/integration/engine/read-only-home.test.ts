/** `doctor` on a home that cannot be written to names the home, not the runtimes. */

import { execFile } from "node:child_process";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { isRootless } from "../../../src/common/privilege.ts";
import { checkHome } from "../../../src/engine/oci/requirements.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const SOURCE = resolve(import.meta.dirname, "../../../src/engine/oci/requirements.ts");
/** A mount of the folder on itself, which alone is read-only, in a mount namespace of its own. */
const READ_ONLY =
  'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && exec "$2" -e "$3" "$4"';
const CHECK = `
  const { checkHome } = await import(${JSON.stringify(SOURCE)});
  console.log(JSON.stringify(await checkHome(process.argv[1])));
`;

test.skipIf(isRootless()).for([
  { name: "itself", below: "" },
  { name: "still to be made below it", below: "a/b" },
])("a read-only home is what is missing, $name", async ({ below }) => {
  await using folder = await makeTempFolder();
  const home = join(folder.path, below);
  const words = ["sh", folder.path, process.execPath, CHECK, home];
  const { stdout } = await promisify(execFile)("unshare", ["-m", "sh", "-c", READ_ONLY, ...words]);
  expect(JSON.parse(stdout)).toEqual({
    name: "home",
    outcome: "missing",
    detail: `${home} cannot be written to`,
    remedy: "make it writable, or use another folder with --home",
  });
});

test("one that is there, and one that is still to be made", async () => {
  await using home = await makeTempFolder();
  for (const path of [home.path, join(home.path, "new")]) {
    expect((await checkHome(path)).detail).not.toContain("cannot be written to");
  }
});
