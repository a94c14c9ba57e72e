/** The operations on volumes, for the table of all. */

import type { Operation } from "./fault-cases.ts";
import type { FaultHome } from "./fault-home.ts";

const UNTOUCHED = { before: "running", after: "running", mayMake: 0 } as const;

async function addVolume(home: FaultHome, name: string): Promise<void> {
  await home.call("POST", "/volumes", { name });
}

/** `makeKept` makes the sandbox that has nothing to do with it. */
export function volumeOperations(makeKept: (home: FaultHome) => Promise<string>): Operation[] {
  return [
    {
      ...UNTOUCHED,
      name: "new volume",
      steps: ["volume.recorded", "volume.formatted", "volume.made"],
      countsFrom: "volume.recorded",
      prepare: makeKept,
      act: async (home) => (await home.call("POST", "/volumes", { name: "volume" }))?.status,
    },
    {
      name: "create with a volume",
      steps: ["create.intent", "volume.mounted", "launch.running", "create.committed"],
      countsFrom: "create.committed",
      before: "gone",
      after: "gone",
      mayMake: 1,
      async prepare(home) {
        await addVolume(home, "used");
        return "none";
      },
      async act(home) {
        const volumeMounts = [{ name: "used", path: "/data" }];
        const body = { templateID: "base", timeout: 3600, secure: false, volumeMounts };
        return (await home.call("POST", "/sandboxes", body))?.status;
      },
    },
    {
      ...UNTOUCHED,
      name: "removal of a volume",
      steps: ["volume.erased", "volume.detached"],
      countsFrom: "volume.erased",
      async prepare(home) {
        await addVolume(home, "old");
        return makeKept(home);
      },
      async act(home) {
        const volumes = JSON.stringify((await home.call("GET", "/volumes"))?.body);
        const id = /"volumeID":"([^"]+)"/.exec(volumes)?.[1] ?? "none";
        return (await home.call("DELETE", `/volumes/${id}`))?.status;
      },
    },
  ];
}
