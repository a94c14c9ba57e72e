/** Objects of other services under a status of success: none of them becomes an empty reply, or "done". */

import { Agent } from "undici";
import { expect, test } from "vitest";
import type { Control } from "../../../src/client/control.ts";
import { createEnvd, type Sandbox } from "../../../src/client/envd.ts";
import { createService } from "../../../src/client/service.ts";
import { createSystemClock } from "../../../src/common/clock.ts";
import { OPEN_ACCESS } from "../../support/control/access-source.ts";
import { answerJson, startRecorder } from "../../support/network/recorder.ts";

const { signal } = new AbortController();

async function ask(body: unknown, call: (sandbox: Sandbox, control: Control) => Promise<unknown>) {
  await using recorder = await startRecorder((_, response) => answerJson(response, 200, { body }));
  await using service = createService({ url: recorder.url, apiKey: "k" });
  const dispatcher = new Agent();
  try {
    const sandbox = createEnvd({
      connection: { dispatcher, clock: createSystemClock() },
      baseUrl: recorder.url,
      source: OPEN_ACCESS,
      isOwnDaemon: false,
    });
    return await call(sandbox, service.control);
  } finally {
    await dispatcher.close();
  }
}

type Call = (sandbox: Sandbox, control: Control) => Promise<unknown>;

const LISTS: Readonly<Record<string, Call>> = {
  "list of a directory": async ({ filesystem }) => filesystem.listDir("/a", 1, { signal }),
  "list of processes": async ({ process }) => process.list(signal),
  "list of events": async ({ filesystem }) => filesystem.takeWatcherEvents("w1", signal),
};

const ENTRIES: Readonly<Record<string, Call>> = {
  "new directory": async ({ filesystem }) => filesystem.makeDir("/a", { signal }),
  "moved path": async ({ filesystem }) => filesystem.move("/a", "/b", { signal }),
  "stat of a path": async ({ filesystem }) => filesystem.stat("/a", { signal }),
};

const CHANGES: Readonly<Record<string, Call>> = {
  "removed path": async ({ filesystem }) => filesystem.remove("/a", { signal }),
  signal: async ({ process }) => process.sendSignal(7, "SIGTERM", signal),
  "killed sandbox": async (_, control) => control.kill("i1", signal),
  "new timeout": async (_, control) => control.setTimeout("i1", 60, signal),
  pause: async (_, control) => control.pause("i1", true, signal),
  "deleted template": async (_, control) => control.deleteTemplate("t1", signal),
};

const UNEXPECTED = { code: "internal", message: expect.stringContaining("unexpected reply: ") };

test.for(Object.entries({ ...LISTS, ...ENTRIES }))(
  "%s is not read from another object",
  async ([, call]) => {
    const foreign = { status: "ok", sandboxID: "i1" };
    await expect(ask(foreign, call)).rejects.toMatchObject(UNEXPECTED);
  },
);

test.for(Object.entries({ ...LISTS, ...ENTRIES, ...CHANGES }))(
  "%s is not read from an error",
  async ([, call]) => {
    await expect(ask({ error: "sign in first" }, call)).rejects.toMatchObject({
      code: "internal",
      message: expect.stringContaining("sign in first"),
    });
    const nested = { error: { message: "sign in first", status: 401 } };
    await expect(ask(nested, call)).rejects.toMatchObject({
      code: "internal",
      message: expect.stringContaining("sign in first"),
    });
  },
);

test.for(Object.entries(LISTS))("an empty %s is empty", async ([, call]) => {
  expect(await ask({}, call)).toEqual([]);
});

test.for(Object.entries(ENTRIES))("%s without an entry is not told", async ([, call]) => {
  await expect(ask({}, call)).rejects.toMatchObject(UNEXPECTED);
});

test("a field of a newer daemon beside the known one is left out", async () => {
  const entry = { name: "a", path: "/d/a", type: "FILE_TYPE_FILE" };
  const listed = ask({ entries: [entry], isCut: true }, async ({ filesystem }) =>
    filesystem.listDir("/d", 1, { signal }),
  );
  expect(await listed).toMatchObject([{ path: "/d/a" }]);
});

test("no error is no error", async () => {
  for (const error of [null, ""]) {
    expect(await ask({ error }, async (_, control) => control.kill("i1", signal))).toBe(true);
  }
});
