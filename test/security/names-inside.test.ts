/** Names that are not UTF-8 in real sandboxes: listed, read, moved and removed through the gateway. */

import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { fromSystemBytes, toWirePath } from "../../src/common/file-names.ts";
import { openGatewayDaemon, type GatewayDaemon } from "../support/hostile/gateway-daemon.ts";
import { makeName } from "../support/hostile/strange-names.ts";
import { createRandom, printedSeed } from "../support/random.ts";
import { tellCells } from "../support/run/cells.ts";
import { attackPlaces, IS_WHOLE_RUN } from "../support/runtimes.ts";

const SEED = printedSeed("names inside");
const NAMES = IS_WHOLE_RUN ? 520 : 100;
const FOLDER = "/home/user/names";
const LIST_PATH = "/tmp/list";
/** Each file is named by a line in hexadecimal; its content is the number of the line. */
const WRITE = `python3 -c "
import os
os.makedirs('${FOLDER}')
for number, line in enumerate(open('${LIST_PATH}')):
    open(os.path.join(b'${FOLDER}', bytes.fromhex(line)), 'w').write(str(number))
"`;
const LEFT = `python3 -c "
import os
print(' '.join(sorted(name.hex() for name in os.listdir(b'${FOLDER}'))))
"`;

describe.each(attackPlaces())("on $name", (place) => {
  let daemon: GatewayDaemon;

  beforeAll(async () => {
    daemon = await openGatewayDaemon(place);
  });

  afterAll(async () => daemon[Symbol.asyncDispose]());

  test(`E56 each listed name leads to its file alone, and removes it alone, seed ${SEED}`, async (context) => {
    const { files, sandbox } = daemon;
    const names = new Map<string, Buffer>();
    for (let index = 0; index < NAMES; index += 1) {
      const name = makeName(createRandom(SEED + index));
      const listed = toWirePath(fromSystemBytes(name));
      if (!names.has(listed)) names.set(listed, name);
    }
    const all = [...names.values()].map((name) => name.toString("hex"));
    await sandbox.files.write(LIST_PATH, all.join("\n"), { user: "root" });
    await daemon.run(WRITE);
    const { entries } = await files.listDir({ path: FOLDER, depth: 1 });
    expect(entries.map((entry) => entry.name).toSorted()).toEqual([...names.keys()].toSorted());
    const left: string[] = [];
    for (const [index, { path, name }] of entries.entries()) {
      const bytes = names.get(name);
      assert(bytes !== undefined);
      const { entry } = await files.stat({ path });
      assert.equal(entry?.name, name);
      const content = String(all.indexOf(bytes.toString("hex")));
      assert.equal(
        await sandbox.files.read(path, { user: "root" }),
        content,
        `seed ${SEED}: ${name}`,
      );
      const destination = `${FOLDER}/moved-${index}`;
      if (index % 2 === 0) {
        await files.move({ source: path, destination });
        left.push(Buffer.from(`moved-${index}`).toString("hex"));
      } else await files.remove({ path });
    }
    expect((await daemon.run(LEFT)).trim()).toBe(left.toSorted().join(" "));
    tellCells(context, names.size);
  });
});
