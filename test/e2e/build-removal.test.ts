/** A template that is removed while a step of its build runs: the build ends, and nothing of it stays. */

import { Template } from "e2b";
import { expect, test } from "vitest";
import { takeCensus } from "../support/census.ts";
import { startServe } from "../support/serve.ts";

const LIMIT_MS = 120_000;
const TURNS_MS = 60_000;

test("the removal of a template ends the step that runs", { timeout: LIMIT_MS }, async () => {
  await using serve = await startServe(["--pool", "0"]);
  const options = { apiKey: serve.apiKey, apiUrl: serve.url };
  // A program that its start runs is a second process of the same words until it is executed.
  let before = await takeCensus(serve.home);
  const look = async () => (before = await takeCensus(serve.home)).processes;
  await expect.poll(look).toHaveLength(1);
  const stuck = Template().fromTemplate("base").runCmd("echo it runs; sleep 100000");
  const build = await Template.buildInBackground(stuck, "stuck", options);
  const lines = async () =>
    (await Template.getBuildStatus(build, options)).logEntries.map(({ message }) => message);
  await expect.poll(lines, { timeout: TURNS_MS }).toContain("it runs");
  expect(await takeCensus(serve.home)).not.toEqual(before);
  const headers = { "x-api-key": serve.apiKey };
  const url = `${serve.url}/templates/${build.templateId}`;
  expect((await fetch(url, { method: "DELETE", headers })).status).toBe(204);
  await expect.poll(() => takeCensus(serve.home), { timeout: TURNS_MS }).toEqual(before);
  const status = await fetch(`${url}/builds/${build.buildId}/status`, { headers });
  expect(status.status).toBe(404);
  await Template.build(Template().fromTemplate("base").runCmd("true"), "stuck", options);
});
