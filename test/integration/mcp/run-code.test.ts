/** run_code by what its program in a sandbox does: its exit codes, its record and its pictures. */

import type { ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { CELL_EXIT } from "../../../src/mcp/code/cell-program.ts";
import { startForeignHost } from "../../support/mcp/foreign-host.ts";
import { answerJson } from "../../support/network/recorder.ts";
import { envelope } from "../../support/raw-call.ts";

const PIXEL = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);
const BROKEN = Buffer.concat([PIXEL.subarray(0, 45), Buffer.from("x"), PIXEL.subarray(46)]);
const LAST = envelope("{}", { flags: 2 });

interface Cell {
  readonly exitCode: number;
  readonly stderr?: string;
  readonly record?: object;
  readonly pictures?: readonly Buffer[];
  /** Never takes its input. */
  readonly isDeaf?: boolean;
}

function event(value: object): Buffer {
  return envelope(JSON.stringify({ event: value }));
}

function stream({ exitCode, stderr = "" }: Cell, response: ServerResponse): void {
  response.writeHead(200, { "content-type": "application/connect+json" });
  response.write(event({ start: { pid: 7 } }));
  response.write(event({ data: { stderr: Buffer.from(stderr).toString("base64") } }));
  response.end(Buffer.concat([event({ end: { exitCode, exited: true } }), LAST]));
}

/** A sandbox in which each cell does this. */
function startSandbox(cell: Cell) {
  const { pictures = [] } = cell;
  return startForeignHost(({ url }, response) => {
    const path = new URL(url, "http://x").searchParams.get("path") ?? "";
    const folder = path.slice(0, path.lastIndexOf("/"));
    if (url.endsWith("/Start")) stream(cell, response);
    else if (path.endsWith(".json") && cell.record !== undefined) {
      const names = pictures.map((_, index) => `${folder}/${index}.png`);
      answerJson(response, 200, { body: { pictures: names, ...cell.record } });
    } else if (path.endsWith(".png")) {
      response.end(pictures[Number(path.slice(folder.length + 1, -4))]);
    } else if (path !== "") answerJson(response, 404, { body: { code: 404, message: "none" } });
    else if (cell.isDeaf !== true) answerJson(response, 200, { body: {} });
  });
}

const RECORD = { error: null, count: 1, note: null };

test("an interpreter that did not run the cell is an error, with what was printed", async () => {
  const note = "the code interpreter ended\nduring the cell";
  const cell = { exitCode: CELL_EXIT.refused, stderr: "so far\n", record: { ...RECORD, note } };
  await using sandbox = await startSandbox(cell);
  const { isError, text } = await sandbox.call("run_code", { code: "1" });
  expect(isError).toBe(true);
  expect(text).toMatch(
    /^unavailable: the code interpreter did not run the whole cell: "the code interpreter ended\\nduring the cell"\. Variables [^]*so far\n/,
  );
});

test.for([
  { exitCode: CELL_EXIT.late, status: "status: the cell was interrupted at timeout_seconds" },
  { exitCode: CELL_EXIT.failed, status: "status: error" },
])("without a record the exit code says how the cell ended: $status", async (each) => {
  await using sandbox = await startSandbox({ exitCode: each.exitCode });
  const { isError, text } = await sandbox.call("run_code", { code: "1" });
  expect({ isError, status: text.split(" | ", 1)[0] }).toEqual({
    isError: false,
    status: each.status,
  });
});

test("pictures that are broken or too many are no content", async () => {
  const pictures = [BROKEN, PIXEL.subarray(0, 60), Buffer.from("no picture"), PIXEL];
  const many = Array.from({ length: 60 }, () => BROKEN);
  const cell = { exitCode: CELL_EXIT.done, record: RECORD, pictures: [...pictures, ...many] };
  await using sandbox = await startSandbox(cell);
  const input = { sandbox_id: "i1", code: "1" };
  const reply = await sandbox.host.client.callTool({ name: "run_code", arguments: input });
  expect(reply["content"]).toEqual([
    { type: "text", text: expect.stringContaining("| images: 1 | 63 more pictures are named") },
    { type: "image", data: PIXEL.toString("base64"), mimeType: "image/png" },
  ]);
  expect(sandbox.recorder.requests.filter(({ url }) => url.includes(".png"))).toHaveLength(8);
});

test("a program that does not take its request does not prolong the wait", async () => {
  const cell = { exitCode: CELL_EXIT.done, record: RECORD, isDeaf: true };
  await using sandbox = await startSandbox(cell);
  const { text } = await sandbox.call("run_code", { code: "1", wait_seconds: 1 });
  expect(text).toMatch(/^status: ok /);
});

test("a cell that waits for an earlier one of its context names it", async () => {
  let pid = 6;
  await using sandbox = await startForeignHost(({ url }, response) => {
    if (!url.endsWith("/Start")) return answerJson(response, 200, { body: {} });
    response.writeHead(200, { "content-type": "application/connect+json" });
    response.write(event({ start: { pid: (pid += 1) } }));
    return undefined;
  });
  const cells = [
    { language: "javascript" },
    { language: "typescript" },
    { language: "typescript", context: "other" },
    { language: "javascript" },
    { language: "python" },
  ];
  const facts = [];
  for (const cell of cells) {
    const { text } = await sandbox.call("run_code", { code: "1", wait_seconds: 0, ...cell });
    facts.push(text.split(" | next_cursor")[0]);
  }
  expect(facts).toEqual([
    "status: running | process_id: p_7",
    "status: running | waits for p_7, an earlier cell that still runs | process_id: p_8",
    "status: running | process_id: p_9",
    "status: running | waits for p_7, an earlier cell that still runs | process_id: p_10",
    "status: running | process_id: p_11",
  ]);
});

test("a cell that has the pid of one that ended comes after those that run", async () => {
  const pids = [7, 8, 7];
  await using sandbox = await startForeignHost(({ url }, response) => {
    if (!url.endsWith("/Start")) return answerJson(response, 200, { body: {} });
    const isFirst = pids.length === 3;
    response.writeHead(200, { "content-type": "application/connect+json" });
    response.write(event({ start: { pid: pids.shift() } }));
    const end = { exitCode: CELL_EXIT.noInterpreter, exited: true };
    if (isFirst) response.end(Buffer.concat([event({ end }), LAST]));
    return undefined;
  });
  await sandbox.call("run_code", { code: "1" });
  const facts = [];
  for (const code of ["2", "3"]) {
    const { text } = await sandbox.call("run_code", { code, wait_seconds: 0 });
    facts.push(text.split(" | next_cursor")[0]);
  }
  expect(facts).toEqual([
    "status: running | process_id: p_8",
    "status: running | waits for p_8, an earlier cell that still runs | process_id: p_7",
  ]);
});
