/** Two servers that edit one file at the same moment. */

import { expect, test } from "vitest";
import { createFakeClock } from "../../support/fake-clock.ts";
import { startForeignHost } from "../../support/mcp/foreign-host.ts";
import { startMcpWorld } from "../../support/mcp/mcp-sandbox.ts";
import { startServer } from "../../support/mcp/mcp-server.ts";
import { answerJson } from "../../support/network/recorder.ts";

const LINES = Array.from({ length: 16 }, (_, index) => index);

test("no edit of either is lost", async () => {
  await using world = await startMcpWorld();
  const sandbox_id = await world.createSandbox();
  const path = `${world.folder}/edited`;
  await using first = await startServer(world);
  await using second = await startServer(world);
  const content = LINES.map((index) => `old${index};`).join("\n");
  await first.ask("write_file", { sandbox_id, path, content });
  const replies = await Promise.all(
    LINES.map((index) => {
      const text = { old_string: `old${index};`, new_string: `new${index};` };
      return (index % 2 === 0 ? first : second).ask("edit_file", { sandbox_id, path, ...text });
    }),
  );
  expect(replies.filter((reply) => !reply.startsWith("replaced 1 of 1"))).toEqual([]);
  const read = await first.ask("read_file", { sandbox_id, path });
  expect(LINES.filter((index) => !read.includes(`new${index};`))).toEqual([]);
});

test.for([
  { daemon: "at once", replyMs: 0, attempts: 30 },
  { daemon: "after nine seconds", replyMs: 9_000, attempts: 3 },
])("a daemon that says $daemon that the file has changed ends the call", async (row) => {
  const clock = createFakeClock(0);
  const entry = { name: "a", type: "FILE_TYPE_FILE", path: "/a", size: "3", owner: "user" };
  const changed = { code: 412, message: "content of file has changed: /a" };
  await using remote = await startForeignHost(({ method, url }, response) => {
    if (url.includes("/filesystem.Filesystem/")) answerJson(response, 200, { body: { entry } });
    else if (method === "GET") response.writeHead(200, { "content-length": "3" }).end("old");
    else void clock.advance(row.replyMs).then(() => answerJson(response, 412, { body: changed }));
  }, clock);
  const input = { path: "/a", old_string: "old", new_string: "new" };
  const { isError, text } = await remote.call("edit_file", input);
  expect([isError, text]).toEqual([
    true,
    expect.stringMatching(
      /^failed_precondition: \/a changes all the time, and was not edited\. Call again when /,
    ),
  ]);
  const sent = remote.recorder.requests.filter(({ url }) => url.startsWith("/files?"));
  expect(sent.filter(({ method }) => method === "POST")).toHaveLength(row.attempts);
});

test("an edit that the end of its server cuts off names that end", async () => {
  const entry = { name: "a", type: "FILE_TYPE_FILE", path: "/a", size: "3", owner: "user" };
  const changed = { code: 412, message: "content of file has changed: /a" };
  const leaving: (() => void)[] = [];
  await using remote = await startForeignHost(({ method, url }, response) => {
    if (url.includes("/filesystem.Filesystem/")) answerJson(response, 200, { body: { entry } });
    else if (method === "GET") response.writeHead(200, { "content-length": "3" }).end("old");
    else {
      for (const leave of leaving) leave();
      answerJson(response, 412, { body: changed });
    }
  });
  leaving.push(() => remote.state.leaving.abort());
  const input = { path: "/a", old_string: "old", new_string: "new" };
  const { isError, text } = await remote.call("edit_file", input);
  expect([isError, text]).toEqual([
    true,
    expect.stringMatching(
      /^unavailable: this server ends, and \/a was not edited: .*\. Call again\./,
    ),
  ]);
});
