/** The end of a container whose sockets take the machine's memory, while its last process is slow to end. */

import { expect, test } from "vitest";
import { openContainer } from "../../../src/engine/oci/container.ts";
import { openProcessGroup } from "../../../src/engine/oci/process-group.ts";
import type { SocketWatch } from "../../../src/engine/oci/socket-watch.ts";
import { BARE_PARTS, HALTED } from "../../support/engine/halted-record.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

test("a container that is being ended is not ended once more at each look", async () => {
  await using folder = await makeTempFolder();
  let kills = 0;
  const ends: (() => void)[] = [];
  const sockets: SocketWatch = {
    add: ({ end }) => {
      ends.push(end);
      return { [Symbol.dispose]() {} };
    },
  };
  const ended = Promise.withResolvers<void>();
  const container = openContainer({
    ...BARE_PARTS,
    directory: folder.path,
    record: { ...HALTED, isHalted: false },
    cgroup: {
      ...openProcessGroup("i0", folder.path),
      async kill() {
        kills += 1;
        await ended.promise;
      },
      isPopulated: async () => false,
    },
    sockets,
  });
  for (let look = 0; look < 3; look += 1) for (const end of ends) end();
  expect(kills).toBe(1);
  ended.resolve();
  expect(await container.exit).toEqual({ reason: "out of memory" });
});
