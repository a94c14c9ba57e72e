/**
 * Three calls on one context, in any order and at any time, from a printed seed: each is answered
 * truly, and what is left of the context is what the answers say.
 */

import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  startInterpreterServer,
  type InterpreterServer,
} from "../../support/daemon/interpreter-server.ts";
import { createRandom, printedSeed } from "../../support/random.ts";

const ORDERS = 30;
const CALLS = 3;
const DELAYS_MS = [0, 0, 1, 5, 40];

const CELLS = {
  bash: { short: "echo on", long: "echo up; sleep 0.4", last: "exit 3" },
  js: {
    short: "console.log('on')",
    long: "console.log('up'); await new Promise((go) => setTimeout(go, 400))",
    last: "process.exit(3)",
  },
} as const;

const random = createRandom(printedSeed("orders of an interpreter"));
let server: InterpreterServer;
beforeAll(async () => {
  server = await startInterpreterServer();
}, 30_000);
afterAll(async () => server[Symbol.asyncDispose]());

/** What a call is answered with; a cell by its lines that are not its output. */
type Call = (id: string, language: keyof typeof CELLS) => Promise<string>;

const CALL: Readonly<Record<string, Call>> = {
  restart: async (id) => `${(await server.call("POST", `/contexts/${id}/restart`)).status}`,
  remove: async (id) => `${(await server.call("DELETE", `/contexts/${id}`)).status}`,
  short: async (id, language) => run(id, CELLS[language].short),
  long: async (id, language) => run(id, CELLS[language].long),
  last: async (id, language) => run(id, CELLS[language].last),
  async left(id, language) {
    const signal = AbortSignal.timeout(1 + random.pick(DELAYS_MS));
    const body = JSON.stringify({ code: CELLS[language].long, context_id: id });
    await fetch(`${server.url}/execute`, { method: "POST", body, signal })
      .then((reply) => reply.text())
      .catch(() => undefined);
    return "left";
  },
};

async function run(id: string, code: string): Promise<string> {
  const { status, text } = await server.call("POST", "/execute", { code, context_id: id });
  if (status !== 200) return `${status}`;
  const lines = text.trim().split("\n");
  const [error] = lines.map((line) => JSON.parse(line)).filter(({ type }) => type === "error");
  expect(lines.at(-1)).toBe('{"type": "end_of_execution"}');
  return error === undefined ? "200" : error.value;
}

const ANSWERS = new Set([
  "200",
  "404",
  "left",
  ...["the context was restarted", "the context was removed", "the kernel exited with code 3"].map(
    (cause) => `${cause}; its variables are gone`,
  ),
]);

test.for(Array.from({ length: ORDERS }, (_, index) => index))("order %i", async () => {
  const language = random.pick(["bash", "js"] as const);
  const names = Array.from({ length: CALLS }, () => random.pick(Object.keys(CALL)));
  const made = await server.call("POST", "/contexts", { language, cwd: "/" });
  const { id } = JSON.parse(made.text);
  const answers = await Promise.all(
    names.map(async (name) => {
      await delay(random.pick(DELAYS_MS));
      return CALL[name]?.(id, language);
    }),
  );
  const told = names.map((name, index) => `${name}: ${answers[index]}`);
  const { text } = await server.call("GET", "/contexts");
  const isRemoved = names.includes("remove");
  expect({
    told,
    unknown: answers.filter((answer) => !ANSWERS.has(answer ?? "")),
    removed: told.filter((line) => line === "remove: 200").length,
    isListed: text.includes(id),
    // The next cell runs, whatever became of the others.
    next: await run(id, CELLS[language].short),
  }).toEqual({
    told,
    unknown: [],
    removed: isRemoved ? 1 : 0,
    isListed: !isRemoved,
    next: isRemoved ? "404" : "200",
  });
  await server.call("DELETE", `/contexts/${id}`);
});
