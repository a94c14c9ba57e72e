/** The OCI engine on each runtime, by the suite of all engines. */

import { describe } from "vitest";
import { describeEngine } from "../../suites/engine.ts";
import { baseLayers } from "../../support/base-layer.ts";
import { startOciHost } from "../../support/engine/oci-host.ts";

describe.each(["crun", "runc"])("the OCI engine on %s", (runtime) => {
  describeEngine(async () => {
    const host = await startOciHost(runtime);
    const layers = await baseLayers();
    return { ...host, create: async (options) => host.create({ layers, ...options }) };
  });
});
