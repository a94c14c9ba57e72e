/** What a runtime did that failed, as its caller is told. */

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { SandboxError } from "../../../src/common/errors.ts";
import { explainFailure, readFirstProcess } from "../../../src/engine/oci/run-runtime.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const hint = "run `sandbox-mcp doctor` on the machine of the service, which tries the runtime";
const NO_LOG = "/nonexistent/log";

test.for([
  {
    what: "no word of its own",
    error: new SandboxError("unavailable", "perl: exit status 1"),
    told: { code: "unavailable", message: "runtime failed: exit status 1", hint },
  },
  {
    what: "a hang",
    error: new SandboxError("deadline_exceeded", "perl took too long"),
    told: { code: "deadline_exceeded", message: "the runtime did not end in time", hint },
  },
  {
    what: "a machine without processes",
    error: new SandboxError("unavailable", "perl: no processes", { hint: "raise the limit" }),
    told: { code: "unavailable", message: "perl: no processes", hint: "raise the limit" },
  },
  ...[
    "launcher: fork: Resource temporarily unavailable",
    "fork/exec /proc/self/exe: resource temporarily unavailable",
    "runtime: failed to create new OS thread (have 2 already; errno=11)",
  ].map((said) => ({
    what: `no process left, as in ${said}`,
    error: new SandboxError("unavailable", `perl: ${said}`),
    told: {
      code: "unavailable",
      message: "the service cannot start any more processes",
      hint: "kill sandboxes, or raise its limit of processes: ulimit -u, TasksMax of systemd",
    },
  })),
])("$what", async ({ error, told }) => {
  expect(await explainFailure(error, NO_LOG)).toMatchObject(told);
});

test("the last message of its log", async () => {
  await using folder = await makeTempFolder();
  const path = join(folder.path, "log");
  await writeFile(path, '{"msg":"first"}\n{"msg":"cannot mount"}\n');
  const error = new SandboxError("unavailable", "perl: exit status 1");
  expect(await explainFailure(error, path)).toMatchObject({
    message: 'runtime failed: "cannot mount"',
    hint,
  });
});

test("a success that started no process", async () => {
  await expect(readFirstProcess("/nonexistent/pid")).rejects.toMatchObject({
    code: "unavailable",
    message: "runtime failed: it started no process",
    hint,
  });
});
