/** A storm of changes in a tree of folders that come, move and go; run by a process of its own. */

import { execFile } from "node:child_process";
import { promisify } from "node:util";

/**
 * The storm itself, without imports of ours, since it must be as fast as it can: new folders in
 * new folders, files in them, moves of both, and removals of both.
 */
const STORM = `
const fs = require("node:fs");
const { join } = require("node:path");
let [seed, count] = process.argv.slice(1).map(Number);
const below = (limit) => {
  seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
  return (seed >>> 8) % limit;
};
let folders = ["."];
let files = [];
const pick = (list) => list[below(list.length)];
const isBelow = (path, top) => path === top || path.startsWith(top + "/");
const moved = (path, from, to) => (isBelow(path, from) ? to + path.slice(from.length) : path);
for (let step = 0; step < count; step += 1) {
  const kind = below(10);
  if (kind < 1 || folders.length < 3) {
    const path = join(pick(folders), "d" + step);
    fs.mkdirSync(path);
    folders.push(path);
  } else if (kind < 6 || files.length < 5) {
    const path = join(pick(folders), "f" + step);
    fs.writeFileSync(path, below(2) ? "" : "x");
    files.push(path);
  } else if (kind < 8) {
    fs.unlinkSync(files.splice(below(files.length), 1)[0]);
  } else if (kind < 9) {
    const index = below(files.length);
    const path = join(pick(folders), "m" + step);
    fs.renameSync(files[index], path);
    files[index] = path;
  } else {
    const from = folders[1 + below(folders.length - 1)];
    if (below(3) > 0) {
      const to = "r" + step;
      fs.renameSync(from, to);
      folders = folders.map((path) => moved(path, from, to));
      files = files.map((path) => moved(path, from, to));
    } else {
      fs.rmSync(from, { recursive: true });
      folders = folders.filter((path) => !isBelow(path, from));
      files = files.filter((path) => !isBelow(path, from));
    }
  }
}`;

/** Makes `count` changes below a folder, which the seed decides. */
export async function runStorm(folder: string, seed: number, count: number): Promise<void> {
  const args = ["-e", STORM, String(seed), String(count)];
  await promisify(execFile)(process.execPath, args, { cwd: folder });
}
