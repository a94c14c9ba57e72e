/** The steps of a Dockerfile with their files: patterns that match nothing, and faults by their line. */

import { mkdir, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readDockerfile } from "../../../src/commands/template-build/dockerfile.ts";
import { prepareSteps } from "../../../src/commands/template-build/prepare-steps.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

async function prepare(lines: readonly string[]) {
  await using place = await makeTempFolder();
  const folder = place.path;
  await mkdir(join(folder, "empty"));
  for (const name of ["package.json", "out.log", "[x]"]) await writeFile(join(folder, name), name);
  await writeFile(join(folder, ".dockerignore"), "*.log\n");
  const plan = readDockerfile(["FROM a", ...lines].join("\n"), "Dockerfile");
  const { steps, notes } = await prepareSteps(folder, plan, join(folder, "Dockerfile"));
  const sources = steps.flatMap(({ step }) => (step.type === "COPY" ? step.args.slice(0, 2) : []));
  return { sources, notes };
}

test("a pattern that matches no file is left out, and the build says so", async () => {
  const found = await prepare([
    "VOLUME /v",
    "COPY package.json yarn.lock* *.log ./",
    "ADD [a]? /x",
  ]);
  expect(found).toEqual({
    sources: ["package.json", "./"],
    notes: [
      "Dockerfile:2: VOLUME has no effect: its files are on the disk of the sandbox",
      "Dockerfile:3: COPY yarn.lock* matches no file that is not ignored",
      "Dockerfile:3: COPY *.log matches no file that is not ignored",
      "Dockerfile:4: ADD [a]? matches no file that is not ignored",
    ],
  });
});

test("a folder that is empty is there", async () => {
  expect(await prepare(["COPY empty /x", "COPY emp* /x"])).toEqual({
    sources: ["empty", "/x", "emp*", "/x"],
    notes: [],
  });
});

test.for([
  ["COPY package.json yarn.lock ./", "Dockerfile:2: COPY: yarn.lock matches no file"],
  ["RUN true\nCOPY out.log ./", "Dockerfile:3: COPY: out.log matches no file"],
  ["COPY ../x* ./", "Dockerfile:2: COPY: ../x* is outside of the folder"],
  ["ADD a[z-a] ./", "Dockerfile:2: ADD: not a pattern of paths: a[z-a]"],
] as const)("%j is refused", async ([lines, fault]) => {
  await expect(prepare([lines])).rejects.toThrow(fault);
});

test("all sources that cannot be copied are told at once", async () => {
  const lines = ["COPY a x", "RUN true", "COPY package.json x", "ADD ../b x"];
  await expect(prepare(lines)).rejects.toThrow(
    "Dockerfile:2: COPY: a matches no file that is not ignored\nDockerfile:5: ADD: ../b is outside",
  );
});

test("a source that is missing is told before any content is read, which may take minutes", async () => {
  await using place = await makeTempFolder();
  const large = join(place.path, "large");
  await writeFile(large, "");
  await truncate(large, 1024 ** 4);
  const plan = readDockerfile("FROM a\nCOPY large x\nCOPY b x\nCOPY . x", "Dockerfile");
  await expect(prepareSteps(place.path, plan, join(place.path, "Dockerfile"))).rejects.toThrow(
    "Dockerfile:3: COPY: b matches no file that is not ignored",
  );
});
