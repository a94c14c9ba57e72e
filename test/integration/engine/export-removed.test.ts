/** An export of layers that are removed meanwhile: no file is written, and the error says why. */

import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { SandboxError } from "../../../src/common/errors.ts";
import { isRootless } from "../../../src/common/privilege.ts";
import { exportImage } from "../../../src/images/export.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const REMOVED = "mine was removed while it was exported";

/** Exports a layer; `isRemoved` says how much of it is gone when the export reads it. */
async function exportLayer(removed: "nothing" | "contents" | "layer") {
  await using folder = await makeTempFolder();
  const root = join(folder.path, "layers/mine/root");
  await mkdir(join(root, "etc"), { recursive: true });
  await writeFile(join(root, "etc/file"), "");
  await mkdir(join(folder.path, "out"));
  const task = {
    home: folder.path,
    layers: [{ root }],
    name: "mine",
    config: {
      env: [],
      workdir: "/",
      user: "user",
      entrypoint: [],
      cmd: [],
      exposedPorts: [],
      labels: {},
    },
    perlDirectory: PERL_DIRECTORY,
    signal: AbortSignal.timeout(20_000),
    requireLayers() {
      if (removed !== "nothing") throw new SandboxError("not_found", REMOVED);
    },
  };
  if (removed === "contents") await rm(join(root, "etc/file"));
  if (removed === "layer") await rm(root, { recursive: true });
  const outcome = await exportImage(task, join(folder.path, "out/mine.tar")).then(
    () => "exported",
    (error: unknown) => (error instanceof Error ? error.message : ""),
  );
  return { outcome, files: await readdir(join(folder.path, "out")) };
}

test.skipIf(isRootless()).for([
  ["nothing", "exported", ["mine.tar"]],
  ["contents", REMOVED, []],
  ["layer", REMOVED, []],
] as const)("%s removed → %s", async ([removed, outcome, files]) => {
  expect(await exportLayer(removed)).toEqual({ outcome, files });
});
