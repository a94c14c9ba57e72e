/** The embedded service, on the bare engine, by the suite of all services. */

import { describe } from "vitest";
import { createService } from "../../src/client/service.ts";
import { describeService, type ServiceHost } from "../suites/service.ts";
import { startTestService } from "../support/service.ts";

async function startHost(): Promise<ServiceHost> {
  const test = await startTestService();
  const { url, socketPath, apiKey, findRun } = test.embedded;
  const service = createService({ url, socketPath, apiKey, findRun });
  const stranger = createService({ url, socketPath, apiKey: `e2b_${"0".repeat(40)}` });
  return {
    service,
    stranger,
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]();
      await stranger[Symbol.asyncDispose]();
      await test[Symbol.asyncDispose]();
    },
  };
}

describe("the embedded service", () => {
  describeService(startHost);
});
