import { expect, test } from "vitest";
import { checkOutside, toChecks, withinLimit } from "../../../src/commands/doctor/outside-check.ts";
import { createSilentLog } from "../../../src/common/log.ts";
import { loadConfig } from "../../../src/config.ts";

const NAMES = ["sandbox: names", "sandbox: HTTPS", "sandbox: package index"];

test.for([
  { code: 0, outcomes: ["ok", "ok", "ok"], remedy: /^$/ },
  { code: 6, outcomes: ["warning"], remedy: /--dns/ },
  { code: 60, outcomes: ["ok", "warning"], remedy: /--ca FILE/ },
  { code: 7, outcomes: ["ok", "warning"], remedy: /--proxy URL/ },
  { code: 22, outcomes: ["ok", "ok", "warning"], remedy: /package index/ },
])("exit $code of curl means $outcomes", ({ code, outcomes, remedy }) => {
  const checks = toChecks({ code, text: "https://index.example/simple\ncurl: (1) it said so\n" });
  expect(checks.map(({ outcome }) => outcome)).toEqual(outcomes);
  expect(checks.map(({ name }) => name)).toEqual(NAMES.slice(0, outcomes.length));
  const { remedy: told = "", detail = "" } = checks.at(-1) ?? {};
  expect(told).toMatch(remedy);
  expect(detail.includes("it said so")).toBe(code !== 0);
});

test("a sandbox without a package client, and any other end, is told once", () => {
  expect(toChecks({ code: 99, text: "" })).toMatchObject([{ detail: "no package client in it" }]);
  expect(toChecks({ code: 137, text: "\u001b[2J" })).toMatchObject([{ outcome: "warning" }]);
});

test("a setting that keeps sandboxes from the internet is told", async () => {
  const loaded = loadConfig({}, ["doctor", "--egress", "off"]);
  if ("faults" in loaded) throw new Error(loaded.faults.join("\n"));
  const never = new AbortController().signal;
  expect(await checkOutside(loaded.config, createSilentLog(), never)).toEqual([
    { name: "sandbox: internet", outcome: "ok", detail: "none, by --egress off" },
  ]);
});

/** Work that ends by its signal alone. */
async function untilAborted(signal: AbortSignal): Promise<void> {
  const { promise, reject } = Promise.withResolvers<void>();
  signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  return promise;
}

async function fail(): Promise<void> {
  return Promise.reject(new Error("broken"));
}

test("a sandbox that does not answer in time is a fault with the limit and the next step", async () => {
  const never = new AbortController().signal;
  await expect(withinLimit(untilAborted, never, 20)).rejects.toMatchObject({
    code: "deadline_exceeded",
    message: "no answer from a sandbox within 0.02 s",
    hint: expect.stringMatching(/load .* run doctor again$/),
  });
});

test("what ends doctor, and any other fault, stays what it is", async () => {
  const stop = new AbortController();
  const stopped = withinLimit(untilAborted, stop.signal, 60_000);
  stop.abort(new Error("stopped"));
  await expect(stopped).rejects.toThrow("stopped");
  await expect(withinLimit(fail, new AbortController().signal, 60_000)).rejects.toThrow("broken");
});
