/** A process that uses the disk of a volume of a home; to each line it answers with the names in the volume. */

import { readdir } from "node:fs/promises";
import { createInterface } from "node:readline";
import { mountVolumeDisks, volumeContent } from "../../../src/engine/storage/volume-disk.ts";
import { PERL_DIRECTORY } from "../perl-directory.ts";

const [, , home = "", volumeId = ""] = process.argv;
await mountVolumeDisks(home, PERL_DIRECTORY, [{ volumeId, sizeMb: 64, owner: 0 }]);
for await (const _ of createInterface({ input: process.stdin })) {
  const names = await readdir(volumeContent(home, volumeId)).catch(String);
  process.stdout.write(`${JSON.stringify(names)}\n`);
}
