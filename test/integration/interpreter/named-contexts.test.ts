/** Contexts by name at once: the start of one kernel holds no cell of another name up. */

import { execFile } from "node:child_process";
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { CELL_FLAGS, CELL_PROGRAM } from "../../../src/mcp/code/cell-program.ts";
import { closeServer, listenOnLoopback } from "../../support/loopback.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

/** An interpreter that makes contexts only when so many were asked for; each cell prints its context. */
async function startInterpreter(together: number) {
  const made: string[] = [];
  let waiting: ServerResponse[] = [];
  const routes: Record<string, (response: ServerResponse, body: string) => void> = {
    "GET /contexts": (response) => response.end(JSON.stringify(made.map((id) => ({ id })))),
    "POST /contexts": (response) => {
      waiting.push(response);
      if (waiting.length < together) return;
      for (const each of waiting) {
        made.push(`c${made.length}`);
        each.end(JSON.stringify({ id: made.at(-1) }));
      }
      waiting = [];
    },
    "POST /execute": (response, body) => {
      const line = { type: "stdout", text: String(JSON.parse(body).context_id) };
      response.end(`${JSON.stringify(line)}\n{"type":"end_of_execution"}\n`);
    },
  };
  const server = createServer((request, response) => {
    void text(request).then((body) => routes[`${request.method} ${request.url}`]?.(response, body));
  });
  const port = await listenOnLoopback(server);
  const folder = await makeTempFolder();
  let cells = 0;
  return {
    made,
    /** What a cell of this context prints. */
    async run(context: string): Promise<string> {
      cells += 1;
      const asked = { code: "1", language: "python", context, timeout: 0 };
      const request = { ...asked, folder: join(folder.path, `cell-${cells}`) };
      const program = CELL_PROGRAM.replace("49999", String(port));
      const child = execFile("python3", [...CELL_FLAGS, "-c", program]);
      child.stdin?.end(JSON.stringify(request));
      const [printed] = await Promise.all([
        child.stdout === null ? "" : text(child.stdout),
        once(child, "exit"),
      ]);
      return printed;
    },
    async [Symbol.asyncDispose]() {
      await closeServer(server);
      await folder[Symbol.asyncDispose]();
    },
  };
}

test("contexts of several names are made at once, and found again", async () => {
  await using interpreter = await startInterpreter(3);
  const names = ["one", "two", "three"];
  const first = await Promise.all(names.map((name) => interpreter.run(name)));
  expect(first.toSorted()).toEqual(["c0", "c1", "c2"]);
  expect(await Promise.all(names.map((name) => interpreter.run(name)))).toEqual(first);
});

test("a cell of a context that is there waits for no other context", async () => {
  await using interpreter = await startInterpreter(1);
  expect(await interpreter.run("one")).toBe("c0");
  const together = Array.from({ length: 4 }, () => interpreter.run("two"));
  expect(await Promise.all([interpreter.run("one"), ...together])).toEqual([
    "c0",
    ...together.map(() => "c1"),
  ]);
  expect(interpreter.made).toEqual(["c0", "c1"]);
});
