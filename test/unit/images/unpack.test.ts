/** What an image's configuration and accounts say in other letters than those of ASCII. */

import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { unpackImage } from "../../../src/images/unpack.ts";
import { shellLayer, writeLayout } from "../../support/images/oci-layout.ts";
import { tar } from "../../support/images/tar-writer.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const signal = AbortSignal.timeout(60_000);

async function unpack(folder: string, config: object, ...layers: readonly Buffer[]) {
  const all = [await shellLayer(), ...layers];
  const { layout } = await writeLayout(join(folder, "layout"), {
    layers: all,
    config: { ...config },
  });
  const root = join(folder, "root");
  const image = await unpackImage({ layout }, root, { perlDirectory: PERL_DIRECTORY, signal });
  return { root, image };
}

test("a work directory that no layer has is made under its name in UTF-8", async () => {
  await using folder = await makeTempFolder();
  const { root, image } = await unpack(folder.path, { WorkingDir: "/srv/größe/数据" });
  expect(image.config.workdir).toBe("/srv/größe/数据");
  expect(await readdir(join(root, "srv/größe"))).toEqual(["数据"]);
});

test("a work directory that a layer has is that one", async () => {
  await using folder = await makeTempFolder();
  const layer = tar({ path: Buffer.from("größe/").toString("latin1"), type: "5" });
  const { root } = await unpack(folder.path, { WorkingDir: "/größe" }, layer);
  expect((await readdir(root)).filter((name) => name.startsWith("gr"))).toEqual(["größe"]);
});

test.for([
  ["srv/app", "/srv/app"],
  ["/srv/../opt//app/.", "/opt/app"],
  ["/srv/..", undefined],
  ["../..", undefined],
] as const)("the work directory %s of an image is %s", async ([WorkingDir, workdir]) => {
  await using folder = await makeTempFolder();
  const { image } = await unpack(folder.path, { WorkingDir });
  expect(image.config.workdir).toBe(workdir);
});

test.for([
  [{}, []],
  [{ User: "root", Env: ["A=1", "B", "_c="] }, []],
  [
    { Env: ["a.b=1", "c-d=2", "E=3", "=4"] },
    ["variables with names that no shell can use were left out (2)"],
  ],
  [{ OnBuild: ["RUN a", "COPY . ."] }, ["its ONBUILD instructions are not run (2)"]],
  [{ Shell: ["/bin/sh", "-c"] }, []],
  [
    { Shell: ["/bin/bash", "-o", "pipefail", "-c"] },
    ["its SHELL is not that of a Dockerfile upon it (1)"],
  ],
  [{ User: "1001:0" }, ['its user "1001:0" has no account (1)']],
  [{ User: "nobody\u001b[31m" }, [String.raw`its user "nobody\u001b[31m" has no account (1)`]],
] as const)("of the configuration %j is noted %j", async ([config, notes]) => {
  await using folder = await makeTempFolder();
  const { image } = await unpack(folder.path, config);
  expect(image.notes).toEqual(notes);
});

test("the home of an account is told in UTF-8", async () => {
  await using folder = await makeTempFolder();
  const accounts = "root:x:0:0:root:/root:/bin/sh\njorg:x:1:1::/home/jörg:/bin/sh\n";
  const layer = tar({ path: "etc/passwd", data: accounts });
  const { image } = await unpack(folder.path, { User: "jorg" }, layer);
  expect(image.home).toBe("/home/jörg");
});

const account = (home: string) =>
  tar(
    { path: "var/pid", type: "2", link: "../run" },
    {
      path: "etc/passwd",
      data: `root:x:0:0:root:/root:/bin/sh\nweb:x:101:102::${home}:/bin/false\n`,
    },
  );

test("the image's user has a home, which no layer has", async () => {
  await using folder = await makeTempFolder();
  const { root, image } = await unpack(folder.path, { User: "101" }, account("/nonexistent"));
  expect(image.home).toBe("/nonexistent");
  const { uid, gid, mode } = await stat(join(root, "nonexistent"));
  expect({ uid, gid, mode: mode & 0o7777 }).toEqual({ uid: 101, gid: 102, mode: 0o755 });
});

test.for(["/dev/null", "/var/pid/web", "/etc/passwd", "/bin/sh/web", "/../../web", "web"])(
  "an account whose home can be no directory, %s, begins at the root",
  async (home) => {
    await using folder = await makeTempFolder();
    const { image } = await unpack(folder.path, { User: "web" }, account(home));
    expect(image.home).toBe("/");
  },
);

test("zeros of a file, as an archive has its holes, take no room on the disk", async () => {
  await using folder = await makeTempFolder();
  const data = Buffer.alloc(8 * 1024 ** 2);
  data.write("begin");
  data.write("end", data.length - 3);
  const { root } = await unpack(folder.path, {}, tar({ path: "hole", data }));
  const file = join(root, "hole");
  expect((await readFile(file)).equals(data)).toBe(true);
  expect((await stat(file)).blocks * 512).toBeLessThan(2 * 1024 ** 2);
});
