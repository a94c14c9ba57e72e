/** Images of files are fetched by skopeo, wherever the home lies. */

import { chmod, mkdir, readdir, rename, stat } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openStore } from "../../../src/store/sqlite.ts";
import { shellLayer, writeLayout } from "../../support/images/oci-layout.ts";
import { pullImage } from "../../support/images/pull-image.ts";
import { tar } from "../../support/images/tar-writer.ts";
import { startProgram } from "../../support/program.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

/** Two commands, on a busy machine. */
const LIMIT_MS = 5 * 60_000;

test("an image is fetched into a home with a colon in its path, and nowhere else", async () => {
  await using folder = await makeTempFolder();
  const written = await writeLayout(join(folder.path, "image"), {
    layers: [tar({ path: "a", data: "b" })],
  });
  const home = join(folder.path, "a:b");
  await using image = await pullImage(`oci:${written.layout}`, {
    home,
    allowsFiles: true,
    signal: new AbortController().signal,
  });
  expect(image.layout.startsWith(`${home}/`)).toBe(true);
  expect(await readdir(folder.path)).toEqual(["a:b", "image"]);
});

test("a fault of skopeo is told once, in its words, and as no line of a log", async () => {
  await using folder = await makeTempFolder();
  const lines: string[] = [];
  const pulled = pullImage(`oci:${join(folder.path, "missing")}`, {
    home: folder.path,
    allowsFiles: true,
    signal: new AbortController().signal,
    onProgress: (line) => lines.push(line),
  });
  await expect(pulled).rejects.toMatchObject({
    code: "not_found",
    message: expect.stringMatching(
      /^the image was not fetched: there is no such image: skopeo: open \S+\/missing\/index\.json: no such file/,
    ),
  });
  expect(lines).toEqual([]);
});

test("an image whose layer has lost modes is unpacked anew", { timeout: LIMIT_MS }, async () => {
  await using folder = await makeTempFolder();
  const home = join(folder.path, "home");
  const { layout } = await writeLayout(join(folder.path, "image"), {
    layers: [await shellLayer()],
  });
  const pull = async () => {
    const words = ["pull", `oci:${layout}`, "--name", "mine", "--home", home];
    await using program = startProgram(["template", ...words]);
    expect({ code: await program.exited(), stderr: program.stderr() }).toMatchObject({ code: 0 });
  };
  const modes = async () => {
    const [name = ""] = await readdir(join(home, "layers"));
    const paths = ["", "bin/sh"].map((path) => join(home, "layers", name, "root", path));
    return Promise.all(paths.map(async (path) => ({ path, mode: (await stat(path)).mode })));
  };
  await pull();
  const before = await modes();
  for (const { path } of before) await chmod(path, 0o700);
  await pull();
  expect(await modes()).toEqual(before);
});

test("an image that closes its own root is unpacked once", { timeout: LIMIT_MS }, async () => {
  await using folder = await makeTempFolder();
  const home = join(folder.path, "home");
  const { layout } = await writeLayout(join(folder.path, "image"), {
    layers: [tar({ path: "./", type: "5", mode: 0o700 }), await shellLayer()],
  });
  const pull = async () => {
    const words = ["pull", `oci:${layout}`, "--name", "mine", "--home", home];
    await using program = startProgram(["template", ...words]);
    expect({ code: await program.exited(), stderr: program.stderr() }).toMatchObject({ code: 0 });
    const [name = ""] = await readdir(join(home, "layers"));
    const { ino, mode } = await stat(join(home, "layers", name, "root"));
    return { ino, mode: mode & 0o7777 };
  };
  const first = await pull();
  expect(first.mode).toBe(0o705);
  expect(await pull()).toEqual(first);
});

test("a layer whose stand-ins an older version left open is not used", async () => {
  await using folder = await makeTempFolder();
  const home = join(folder.path, "home");
  const layers = join(home, "layers");
  const { layout } = await writeLayout(join(folder.path, "image"), {
    layers: [await shellLayer()],
  });
  const pull = async () => {
    const words = ["pull", `oci:${layout}`, "--name", "mine", "--home", home];
    await using program = startProgram(["template", ...words]);
    expect({ code: await program.exited(), stderr: program.stderr() }).toMatchObject({ code: 0 });
  };
  await pull();
  const [name = ""] = await readdir(layers);
  const older = name.replace(/[0-9]+$/, "5");
  await rename(join(layers, name), join(layers, older));
  const script = "root/usr/local/lib/sandbox-mcp/sudo.sh";
  await chmod(join(layers, older, script), 0o777);
  await pull();
  using store = openStore({ path: join(home, "state.db") });
  const newest = store.builds.all().toSorted((left, right) => right.createdAtMs - left.createdAtMs);
  const root = join(layers, newest[0]?.layers[0]?.root ?? "");
  expect((await stat(join(root, script.replace("root/", "")))).mode & 0o777).toBe(0o755);
});

test("images that newer ones of the name replaced long ago go", { timeout: LIMIT_MS }, async () => {
  await using folder = await makeTempFolder();
  const home = join(folder.path, "home");
  const layer = await shellLayer();
  const pull = async (version: string) => {
    const config = { Env: [`VERSION=${version}`] };
    const { layout } = await writeLayout(join(folder.path, version), { layers: [layer], config });
    const words = ["pull", `oci:${layout}`, "--name", "mine", "--home", home];
    await using program = startProgram(["template", ...words]);
    expect({ code: await program.exited(), stderr: program.stderr() }).toMatchObject({ code: 0 });
  };
  await pull("first");
  using store = openStore({ path: join(home, "state.db") });
  const [first] = store.builds.all();
  if (first === undefined) throw new Error("no build");
  for (const count of Array(60).keys()) {
    const name = `image-${String(count).padStart(32, "0")}-5`;
    await mkdir(join(home, "layers", name, "root"), { recursive: true });
    const layers = [{ root: `${name}/root` }];
    store.builds.put({ ...first, buildId: `build-${count}`, layers, createdAtMs: count });
  }
  await pull("second");
  const kept = store.builds.all().length;
  expect({ kept, images: (await readdir(join(home, "layers"))).length }).toEqual({
    kept: 51,
    images: 51,
  });
});
