/** The devices that a sandbox shares with its host stay the host's. */

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Container } from "../../../src/engine/engine.ts";
import { baseLayers } from "../../support/base-layer.ts";
import { startOciHost, type OciHost } from "../../support/engine/oci-host.ts";
import { initDaemon, runInside } from "../../support/engine/run-inside.ts";

/** Ids from outside of the sandbox's range are seen as this one. */
const NOBODY = "65534";
const DEVICES = ["null", "zero", "full", "random", "urandom", "tty"];

describe.each(["crun", "runc"])("on %s", (runtime) => {
  let host: OciHost;
  let container: Container;

  beforeAll(async () => {
    host = await startOciHost(runtime);
    container = await host.create({ layers: await baseLayers() });
    await initDaemon(container);
  });

  afterAll(async () => {
    await container[Symbol.asyncDispose]();
    await host[Symbol.asyncDispose]();
  });

  test("root of a sandbox owns none of them, and cannot close them to others", async () => {
    const paths = DEVICES.map((name) => `/dev/${name}`).join(" ");
    const result = await runInside(
      container,
      `stat -c %u:%g ${paths}; chmod 666 /dev/null 2>&1; chown 0 /dev/null 2>&1; true`,
    );
    const [refusals, owners] = [result.stdout.split("\n"), DEVICES.length];
    expect(refusals.slice(0, owners)).toEqual(DEVICES.map(() => `${NOBODY}:${NOBODY}`));
    expect(refusals.slice(owners, -1)).toEqual([
      expect.stringContaining("Operation not permitted"),
      expect.stringContaining("Operation not permitted"),
    ]);
  });
});
