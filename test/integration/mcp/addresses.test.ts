/** Links and addresses of a sandbox: what they are worth while it is paused, gone, or ends before. */

import { expect, test } from "vitest";
import { createService } from "../../../src/client/service.ts";
import { createSilentLog } from "../../../src/common/log.ts";
import { startMcpState } from "../../../src/mcp/state.ts";
import { SANDBOX_DETAIL } from "../../support/control/sandbox-detail.ts";
import { startMcpHost } from "../../support/mcp/mcp-host.ts";
import { toReply } from "../../support/mcp/tool-reply.ts";
import { answerJson, startRecorder } from "../../support/network/recorder.ts";

const HOUR_MS = 3_600_000;
const SECURED = { ...SANDBOX_DETAIL, envdAccessToken: "token-1" };

/** Our tools on a service whose one sandbox is as `changes` says; undefined: it is gone. */
async function startRemote() {
  await using stack = new AsyncDisposableStack();
  const sandbox: { changes: object | undefined } = { changes: {} };
  const recorder = stack.use(
    await startRecorder((_request, response) =>
      sandbox.changes === undefined
        ? answerJson(response, 404, { body: { code: 404, message: "no such sandbox" } })
        : answerJson(response, 200, { body: { ...SECURED, ...sandbox.changes } }),
    ),
  );
  const address = { url: recorder.url, sandboxUrl: recorder.url };
  const service = stack.use(createService({ ...address, apiKey: "k" }));
  const state = stack.use(
    startMcpState({ service: () => service, log: createSilentLog(), onExit: () => "leave" }),
  );
  const host = stack.use(await startMcpHost(state));
  const owned = stack.move();
  const input = { sandbox_id: SANDBOX_DETAIL.sandboxID };
  return {
    sandbox,
    link: async (user?: string) => {
      const named = { ...input, path: "/a", ...(user !== undefined && { user }) };
      return toReply(await host.client.callTool({ name: "download_url", arguments: named }));
    },
    address: async () =>
      toReply(
        await host.client.callTool({ name: "get_sandbox_url", arguments: { ...input, port: 80 } }),
      ),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

test.for([
  { user: "root", isOdd: false },
  { user: "john.doe", isOdd: true },
  { user: "Admin", isOdd: true },
  { user: "a".repeat(33), isOdd: true },
])("a link for $user tells that it may not work: $isOdd", async ({ user, isOdd }) => {
  await using remote = await startRemote();
  const { fields } = await remote.link(user);
  expect(String(fields["note"]).includes("may take no link for a user of this name")).toBe(isOdd);
});

const PAUSED =
  "The sandbox is paused: nothing answers until it runs again. Resume it with connect_sandbox.";

test("a paused sandbox has addresses that answer later, unless traffic wakes it", async () => {
  await using remote = await startRemote();
  remote.sandbox.changes = { state: "paused" };
  expect((await remote.link()).fields["note"]).toBe(
    `Whoever has the link can read the file. ${PAUSED}`,
  );
  expect((await remote.address()).fields["note"]).toContain(PAUSED);
  remote.sandbox.changes = { state: "paused", lifecycle: { autoResume: true } };
  expect((await remote.link()).fields["note"]).toBe("Whoever has the link can read the file.");
  expect((await remote.address()).fields["note"]).not.toContain("paused");
});

test("the address of a private sandbox says that no tool has its token, and what helps", async () => {
  await using remote = await startRemote();
  remote.sandbox.changes = { network: { allowPublicTraffic: false } };
  expect((await remote.address()).fields["note"]).toMatch(
    /is private: .* and no tool returns: one made with public_traffic=true needs none\.$/,
  );
});

test("a sandbox that ended since the last call has no link", async () => {
  await using remote = await startRemote();
  expect((await remote.link()).isError).toBe(false);
  remote.sandbox.changes = undefined;
  const { isError, text } = await remote.link();
  expect([isError, text]).toEqual([
    true,
    expect.stringMatching(/^not_found: sandbox i1 does not exist .* Call create_sandbox/),
  ]);
});

test.for([
  { lifecycle: undefined, end: "ends" },
  { lifecycle: { autoResume: false, onTimeout: "pause" }, end: "is paused" },
])("a link that its sandbox does not outlive says when it $end", async ({ lifecycle, end }) => {
  await using remote = await startRemote();
  const endAt = new Date(Date.now() + HOUR_MS / 2).toISOString();
  remote.sandbox.changes = { endAt, lifecycle };
  expect((await remote.link()).fields["note"]).toBe(
    `Whoever has the link can read the file. The sandbox ${end} before that, at ${endAt}, and the link stops working then.`,
  );
});

test("a link that ends first says nothing of its sandbox", async () => {
  await using remote = await startRemote();
  remote.sandbox.changes = { endAt: new Date(Date.now() + 2 * HOUR_MS).toISOString() };
  expect((await remote.link()).fields["note"]).toBe("Whoever has the link can read the file.");
});

test("a link without a signature has the end of its sandbox", async () => {
  await using remote = await startRemote();
  const endAt = new Date(Date.now() + 2 * HOUR_MS).toISOString();
  remote.sandbox.changes = { endAt, envdAccessToken: null };
  const { fields } = await remote.link();
  expect(String(fields["url"])).not.toContain("signature");
  expect(fields).toMatchObject({
    expires_at: endAt,
    note: expect.stringMatching(/asks for no token, so expires_seconds does not count: the link/),
  });
});
