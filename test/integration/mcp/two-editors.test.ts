/** Two servers that edit one file at the same moment. */

import { expect, test } from "vitest";
import { startMcpWorld } from "../../support/mcp/mcp-sandbox.ts";
import { startServer } from "../../support/mcp/mcp-server.ts";

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
