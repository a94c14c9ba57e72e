/** A machine whose file systems are overlays, as in a container: they show no other ids. */

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { startStdio } from "../support/faults/guarded.ts";
import { openTestHome } from "../support/home.ts";
import { PROGRAM } from "../support/program.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

/** In a mount namespace of its own, an overlay of `$1` stands on it; `$2` holds what it writes. */
const ON_OVERLAY = [
  'mkdir "$2/upper" "$2/work" || exit 1',
  'mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$1" || exit 1',
  'shift 2; exec "$@"',
].join("\n");

function onOverlay(path: string, folder: string): readonly [string, ...string[]] {
  const words = ["sh", "-c", ON_OVERLAY, "sh", path, folder];
  return ["unshare", "--mount", ...words, process.execPath, PROGRAM];
}

test("doctor says that a home on an overlay cannot be one, and where it can be", async () => {
  await using home = await makeTempFolder();
  await using folder = await makeTempFolder();
  const [unshare, ...words] = onOverlay(home.path, folder.path);
  const run = promisify(execFile)(unshare, [...words, "doctor", "--home", home.path]);
  const { code, stdout } = await run.then(
    (done) => ({ code: 0, stdout: done.stdout }),
    (error: unknown) => Object(error),
  );
  expect([code, stdout]).toEqual([
    69,
    expect.stringMatching(
      /^missing +home: .*: an overlay cannot be mounted .* → use --home .*ext4/m,
    ),
  ]);
});

const HIDE_BUILDER = 'mount --bind /dev/null "$(command -v mmdebstrap)" && exec "$@"';

test.for([
  { machine: "can build base", hide: 'exec "$@"', outcome: "warning", says: /: not built yet → / },
  {
    machine: "cannot build it",
    hide: HIDE_BUILDER,
    outcome: "missing",
    says: /: not built yet; mmdebstrap is missing → .*install/,
  },
])("doctor tells whether a machine without host $machine", async ({ hide, outcome, says }) => {
  await using home = await makeTempFolder();
  await using folder = await makeTempFolder();
  const [unshare, ...words] = onOverlay("/usr", folder.path);
  const doctor = [...words.slice(0, -2), "sh", "-c", hide, "sh", ...words.slice(-2), "doctor"];
  const run = promisify(execFile)(unshare, [...doctor, "--home", home.path]);
  const { code, stdout } = await run.then(
    (done) => ({ code: 0, stdout: done.stdout }),
    (error: unknown) => Object(error),
  );
  expect([code, /\nusable: /.test(stdout)]).toEqual(
    outcome === "missing" ? [69, false] : [0, true],
  );
  const rows = stdout.split("\n").filter((line: string) => /template base|sandbox:/.test(line));
  expect(rows).toEqual([
    expect.stringMatching(new RegExp(`^${outcome} +template base${says.source}`)),
  ]);
});

test("where /usr is on an overlay, base is the template, and host is not offered", async () => {
  await using home = await openTestHome();
  await using folder = await makeTempFolder();
  const command = onOverlay("/usr", folder.path);
  await using session = await startStdio(home.path, ["--pool", "0"], command);
  const create = async (input: object) =>
    session.raw.request("tools/call", { name: "create_sandbox", arguments: input });
  expect(await create({})).toMatchObject({ structuredContent: { template: "base" } });
  expect(await create({ template: "host" })).toMatchObject({
    isError: true,
    content: [{ text: expect.stringContaining("host") }],
  });
});
