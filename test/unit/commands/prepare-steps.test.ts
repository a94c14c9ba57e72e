/** The steps of a Dockerfile with their files: patterns that match nothing, and faults by their line. */

import { mkdir, readdir, readlink, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readDockerfile } from "../../../src/commands/template-build/dockerfile.ts";
import { prepareSteps } from "../../../src/commands/template-build/prepare-steps.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const NEVER = new AbortController().signal;

function placeIn(folder: string) {
  return { folder, file: join(folder, "Dockerfile") };
}

/** A file that nothing reads to its end. */
async function writeLarge(folder: string): Promise<void> {
  const path = join(folder, "large");
  await writeFile(path, "");
  await truncate(path, 1024 ** 4);
}

/** Of the files that this process has open. */
async function openPaths(): Promise<(string | undefined)[]> {
  const names = await readdir("/proc/self/fd");
  return Promise.all(names.map((name) => readlink(`/proc/self/fd/${name}`).catch(() => undefined)));
}

async function prepare(lines: readonly string[]) {
  await using place = await makeTempFolder();
  const folder = place.path;
  await mkdir(join(folder, "empty"));
  for (const name of ["package.json", "out.log", "[x]"]) await writeFile(join(folder, name), name);
  await writeFile(join(folder, ".dockerignore"), "*.log\n");
  const plan = readDockerfile(["FROM a", ...lines].join("\n"), "Dockerfile");
  const { steps, notes } = await prepareSteps(placeIn(folder), plan, NEVER);
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
  await writeLarge(place.path);
  const plan = readDockerfile("FROM a\nCOPY large x\nCOPY b x\nCOPY . x", "Dockerfile");
  await expect(prepareSteps(placeIn(place.path), plan, NEVER)).rejects.toThrow(
    "Dockerfile:3: COPY: b matches no file that is not ignored",
  );
});

test("a build that is stopped reads no file to its end", async () => {
  await using place = await makeTempFolder();
  await writeLarge(place.path);
  const plan = readDockerfile("FROM a\nCOPY large x", "Dockerfile");
  const stop = new AbortController();
  const preparing = prepareSteps(placeIn(place.path), plan, stop.signal);
  await expect.poll(openPaths).toContain(join(place.path, "large"));
  stop.abort();
  await expect(preparing).rejects.toThrow(/abort/);
});
