/** What a reply says of an entry of a volume is what the call made, whatever others do to the path. */

import { renameSync, unlinkSync, watch, writeFileSync } from "node:fs";
import { join } from "node:path";
import { request } from "undici";
import { expect, onTestFinished, test } from "vitest";
import { volumeSchema } from "../../src/wire/control.ts";
import { VOLUME_LEVELS, volumeDirectory } from "../support/control/volume-levels.ts";
import { startTestService } from "../support/service.ts";

/** As another upload does. */
function replace(path: string): void {
  writeFileSync(`${path}.new`, "longer than it was");
  renameSync(`${path}.new`, path);
}

const OTHERS = [
  { name: "removed", act: unlinkSync },
  { name: "replaced", act: replace },
];
const CASES = VOLUME_LEVELS.flatMap((level) =>
  OTHERS.map((other) => ({ level, levelName: level.name, ...other })),
);

test.for(CASES)(
  "with $levelName an upload whose file is $name at once tells of what it wrote",
  async ({ level, act }) => {
    await using service = await startTestService(level.options);
    const made = await service.call({ method: "POST", path: "/volumes", body: { name: "v" } });
    const { volumeID, token } = volumeSchema.parse(made.body);
    const ask = async (method: string, operation: string, body?: string) => {
      const url = `http://localhost/volumecontent/${volumeID}/${operation}`;
      const headers = { authorization: `Bearer ${token}` };
      const { dispatcher } = service;
      const reply = await request(url, { dispatcher, method, headers, body: body ?? null });
      return { status: reply.statusCode, body: await reply.body.json() };
    };
    // The directory is there from the first use on.
    await ask("GET", "dir?path=%2F");
    const directory = volumeDirectory(service, volumeID);
    let acts = 0;
    const watcher = watch(directory, (_event, name) => {
      if (name !== "a" || acts > 0) return;
      acts += 1;
      act(join(directory, name));
    });
    onTestFinished(() => watcher.close());
    const written = await ask("PUT", "file?path=%2Fa", "short");
    await expect.poll(() => acts).toBe(1);
    expect(written).toMatchObject({ status: 201, body: { path: "/a", size: 5 } });
  },
);
