/** Programs of every account install into `/usr/local`: npm and pip of a template need no sudo. */

import { execFile } from "node:child_process";
import { chmod, mkdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { buildHost } from "../../../src/engine/templates/host.ts";
import { openLocal } from "../../../src/engine/templates/settings.ts";
import { prepareTrust } from "../../../src/engine/templates/trust.ts";
import { unpackImage } from "../../../src/images/unpack.ts";
import { writeLayout } from "../../support/images/oci-layout.ts";
import { tar } from "../../support/images/tar-writer.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const run = promisify(execFile);
const signal = new AbortController().signal;

async function modes(root: string, paths: readonly string[]) {
  const facts = await Promise.all(paths.map((path) => stat(join(root, path))));
  return facts.map(({ mode }) => (mode & 0o7777).toString(8));
}

test("directories of /usr/local are writable, files and what links lead to are not", async () => {
  await using folder = await makeTempFolder();
  const { path } = folder;
  await mkdir(join(path, "outside"), { mode: 0o755 });
  await mkdir(join(path, "local/lib/node_modules"), { recursive: true, mode: 0o755 });
  await writeFile(join(path, "local/lib/file"), "");
  await chmod(join(path, "local/lib/file"), 0o644);
  await symlink("../outside", join(path, "local/link"));
  await openLocal(join(path, "local"));
  const paths = ["local", "local/lib", "local/lib/node_modules", "local/lib/file", "outside"];
  expect(await modes(path, paths)).toEqual(["777", "777", "777", "644", "755"]);
});

test("the template host has them, also below the certificates of the machine", async () => {
  await using folder = await makeTempFolder();
  const { path } = folder;
  const layers = await buildHost({ directory: join(path, "host"), perlDirectory: PERL_DIRECTORY });
  const paths = ["local", "local/bin", "local/lib", "local/share"];
  expect(await modes(layers[1]?.usr ?? "", paths)).toEqual(["777", "777", "777", "777"]);
  const words = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];
  const file = join(path, "ca.pem");
  const rest = ["-nodes", "-subj", "/CN=Test", "-out", file, "-keyout", join(path, "key.pem")];
  await run("openssl", [...words, ...rest]);
  const trust = await prepareTrust({ home: path, file, files: [], hasProxy: false });
  const { root = "", usr = "" } = trust?.layer ?? {};
  expect(await modes(usr, ["", "local", "local/share"])).toEqual(["755", "777", "777"]);
  expect(await modes(root, ["usr", "usr/local", "etc/ssl"])).toEqual(["755", "777", "755"]);
});

test("an image has them when it is a template", async () => {
  await using folder = await makeTempFolder();
  const layer = tar(
    { path: "bin/sh", data: await readFile("/bin/sh"), mode: 0o755 },
    { path: "usr/local/lib/python3/site-packages/", type: "5", mode: 0o2755, gid: 50 },
    { path: "usr/local/bin/python3", data: "#!", mode: 0o755 },
    { path: "usr/lib/", type: "5", mode: 0o755 },
  );
  const layout = join(folder.path, "image");
  await writeLayout(layout, { layers: [layer] });
  const root = join(folder.path, "root");
  await unpackImage({ layout }, root, { perlDirectory: PERL_DIRECTORY, signal });
  const paths = ["", "/bin", "/lib/python3/site-packages", "/bin/python3", "/lib/sandbox-mcp"];
  const expected = ["777", "777", "2777", "755", "755"];
  expect(await modes(join(root, "usr/local"), paths)).toEqual(expected);
  expect(await modes(root, ["usr", "usr/lib"])).toEqual(["755", "755"]);
});

test("an image that has the stand-ins of an earlier import keeps them closed", async () => {
  await using folder = await makeTempFolder();
  const standIns = "usr/local/lib/sandbox-mcp";
  const layer = tar(
    { path: "bin/sh", data: await readFile("/bin/sh"), mode: 0o755 },
    { path: `${standIns}/`, type: "5", mode: 0o755 },
    { path: `${standIns}/bash/`, type: "5", mode: 0o755 },
    { path: `${standIns}/bash/lib/`, type: "5", mode: 0o755 },
  );
  const layout = join(folder.path, "image");
  await writeLayout(layout, { layers: [layer] });
  const root = join(folder.path, "root");
  await unpackImage({ layout }, root, { perlDirectory: PERL_DIRECTORY, signal });
  const paths = ["usr/local/lib", standIns, `${standIns}/bash`, `${standIns}/bash/lib`];
  expect(await modes(root, paths)).toEqual(["777", "755", "755", "755"]);
});
