/** Input for a process that reads late: the client waits for it, as for no other reply. */

import { createRouterTransport } from "@connectrpc/connect";
import { afterEach, expect, test, vi } from "vitest";
import { createProcess } from "../../../src/client/process.ts";
import { createSystemClock } from "../../../src/common/clock.ts";
import { SandboxError } from "../../../src/common/errors.ts";
import { Process } from "../../../src/gen/process/process_pb.ts";
import { OPEN_ACCESS } from "../../support/control/access-source.ts";

/** A daemon that answers nothing before `answer`, and keeps what it was sent. */
function setUp() {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const { promise: answered, resolve: answer } = Promise.withResolvers<void>();
  const taken: string[] = [];
  const transport = createRouterTransport((router) => {
    router.service(Process, {
      async streamInput(requests) {
        for await (const { event } of requests) {
          if (event.case !== "data") continue;
          const { value } = event.value.input?.input ?? {};
          taken.push(Buffer.from(value ?? []).toString());
          await answered;
        }
        return {};
      },
      async list() {
        await answered;
        return {};
      },
    });
  });
  const process = createProcess(transport, {
    source: OPEN_ACCESS,
    clock: createSystemClock(),
    plain: transport,
  });
  return { process, taken, answer };
}

/** The code of the error, or that there was none. */
async function outcomeOf(work: Promise<unknown>): Promise<unknown> {
  try {
    await work;
  } catch (error) {
    return error instanceof SandboxError ? error.code : error;
  }
  return "done";
}

afterEach(() => {
  vi.useRealTimers();
});

test("input is sent whole, however late its process reads", async () => {
  const { process, taken, answer } = setUp();
  const chunks = [Buffer.from("first"), Buffer.from("second")];
  const outcome = outcomeOf(process.sendInput(7, chunks, new AbortController().signal));
  await vi.advanceTimersByTimeAsync(600_000);
  answer();
  expect(await outcome).toBe("done");
  expect(taken).toEqual(["first", "second"]);
});

test("input for a process that never reads ends with its signal", async () => {
  const { process, answer } = setUp();
  const controller = new AbortController();
  const outcome = outcomeOf(process.sendInput(7, [Buffer.from("first")], controller.signal));
  await vi.advanceTimersByTimeAsync(600_000);
  controller.abort();
  expect(await outcome).toBe("canceled");
  answer();
});

test("any other reply is waited for 60 s", async () => {
  const { process, answer } = setUp();
  const outcome = outcomeOf(process.list(new AbortController().signal));
  await vi.advanceTimersByTimeAsync(60_000);
  expect(await outcome).toBe("deadline_exceeded");
  answer();
});
