/** A running `serve`, beside it and as a remote service by its address, by the suite of all services. */

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe } from "vitest";
import { createService, type ServiceOptions } from "../../src/client/service.ts";
import { describeService, type ServiceHost } from "../suites/service.ts";
import { startServe, type TestServe } from "../support/serve.ts";

async function startHost(
  toOptions: (serve: TestServe) => Promise<ServiceOptions>,
): Promise<ServiceHost> {
  const serve = await startServe(["--pool", "0"]);
  const options = await toOptions(serve);
  const service = createService(options);
  const stranger = createService({ ...options, apiKey: `e2b_${"0".repeat(40)}` });
  return {
    service,
    stranger,
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]();
      await stranger[Symbol.asyncDispose]();
      await serve[Symbol.asyncDispose]();
    },
  };
}

describe("serve, from the same machine and user", () => {
  describeService(async () =>
    startHost(async ({ home }) => {
      const folder = join(home, "instances/serve");
      const apiKey = await readFile(join(folder, "token"), "utf8");
      return { url: "http://localhost", socketPath: join(folder, "door.sock"), apiKey };
    }),
  );
});

describe("serve, as a remote service", () => {
  describeService(async () =>
    startHost(async ({ url, apiKey }) => ({ url, sandboxUrl: url, apiKey })),
  );
});
