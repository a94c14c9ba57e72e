/** Images of files are fetched by skopeo, wherever the home lies. */

import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { pullImage } from "../../../src/images/pull.ts";
import { writeLayout } from "../../support/oci-layout.ts";
import { tar } from "../../support/tar-writer.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

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
