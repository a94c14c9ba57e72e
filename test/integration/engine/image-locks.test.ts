/** The locks under which images are added, and the clean-up that they keep off. */

import { readdir } from "node:fs/promises";
import { expect, test } from "vitest";
import {
  holdImages,
  whileImagesStay,
  whileNoImageIsUsed,
  withImageLock,
} from "../../../src/images/image-locks.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const signal = new AbortController().signal;

test("several hold images at once, and a clean-up waits for none of them", async () => {
  await using home = await makeTempFolder();
  const options = { home: home.path, signal };
  const first = await holdImages(options);
  const second = await holdImages(options);
  expect(await whileNoImageIsUsed(home.path, async () => "cleaned")).toBeUndefined();
  await first[Symbol.asyncDispose]();
  expect(await whileNoImageIsUsed(home.path, async () => "cleaned")).toBeUndefined();
  await second[Symbol.asyncDispose]();
  expect(await whileNoImageIsUsed(home.path, async () => "cleaned")).toBe("cleaned");
});

test("work on one image excludes work on the same alone", async () => {
  await using home = await makeTempFolder();
  const options = { home: home.path, signal };
  const { promise: held, resolve: release } = Promise.withResolvers<void>();
  const order: string[] = [];
  const work = (what: string, name: string) =>
    withImageLock(options, what, async () => void order.push(name));
  const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
  const slow = withImageLock(options, "a", async () => {
    begin();
    await held;
    order.push("slow");
  });
  await begun;
  const same = work("a", "same");
  await work("b", "other");
  release();
  await Promise.all([slow, same]);
  expect(order).toEqual(["other", "slow", "same"]);
});

test("a clean-up removes the files of locks that nobody can wait for", async () => {
  await using home = await makeTempFolder();
  const options = { home: home.path, signal };
  const hold = await holdImages(options);
  await withImageLock(options, "a", async () => undefined);
  const files = async () => (await readdir(home.path)).filter((name) => name.endsWith(".lock"));
  expect(await files()).toHaveLength(2);
  await hold[Symbol.asyncDispose]();
  await whileNoImageIsUsed(home.path, async () => undefined);
  expect(await files()).toEqual(["image.lock"]);
});

test("the last of those that add images leaves no file of a lock but one", async () => {
  await using home = await makeTempFolder();
  const options = { home: home.path, signal };
  const hold = await holdImages(options);
  const add = (what: string) =>
    whileImagesStay(options, () => withImageLock(options, what, async () => undefined));
  const files = async () => (await readdir(home.path)).filter((name) => name.endsWith(".lock"));
  await add("a");
  expect(await files()).toHaveLength(2);
  await hold[Symbol.asyncDispose]();
  await add("b");
  expect(await files()).toEqual(["image.lock"]);
});
