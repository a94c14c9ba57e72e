/**
 * The licences of the packages whose code is in the programs. A bundler takes the code alone, and
 * most of these licences ask for their text beside every copy.
 */

import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

const PACKAGE = /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/;
const LICENSE_FILE = /^(?:licen[cs]e|notice)\b/i;
const RULE = "-".repeat(80);

interface Facts {
  readonly name: string;
  readonly version: string;
  readonly license: string;
  readonly author?: string | { readonly name: string };
}

/** A section for each package of these files: name, version, licence and the text, if it has one. */
export async function readNotices(modules: readonly string[]): Promise<string> {
  const folders = new Set(modules.flatMap((path) => PACKAGE.exec(path)?.[0] ?? []));
  const sections = await Promise.all([...folders].map((folder) => readSection(folder)));
  return sections.toSorted().join(`\n${RULE}\n\n`);
}

async function readSection(folder: string): Promise<string> {
  const facts: Facts = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
  const { name, version, license, author } = facts;
  const files = (await readdir(folder)).filter((file) => LICENSE_FILE.test(file)).toSorted();
  const texts = await Promise.all(files.map((file) => readFile(join(folder, file), "utf8")));
  const by = typeof author === "object" ? author.name : author;
  const head = [`${name} ${version}`, license, ...(by === undefined ? [] : [by])].join(", ");
  return `${[head, ...texts.map((text) => text.trim())].join("\n\n")}\n`;
}
