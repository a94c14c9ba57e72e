/** Templates through the tools: built from steps, followed by cursor, and shown. */

import { expect, test } from "vitest";
import { startMcpWorld } from "../../support/mcp/mcp-sandbox.ts";

test("a template of variables is built, shown, and its sandboxes have them", async () => {
  await using world = await startMcpWorld();
  const built = await world.call("build_template", {
    name: "varied:v1",
    steps: [
      { type: "env", value: "WORD=one=two" },
      { type: "env", value: "TWICE=$WORD$WORD" },
    ],
    cpus: 1,
    memory_mb: 256,
  });
  expect(built.text).toMatch(
    /^status: ready \| template_id: \w+ \| build_id: \w+\/[0-9a-f-]{36}\n/,
  );
  expect(built.text).toContain("[2/2] ENV TWICE");
  const created = await world.call("create_sandbox", { template: "varied:v1" });
  const run = { sandbox_id: created.fields["sandbox_id"], cmd: "echo $TWICE" };
  expect((await world.call("run_process", run)).text).toContain("one=twoone=two");
  expect((await world.call("list_templates", {})).fields["templates"]).toContainEqual(
    expect.objectContaining({ names: ["local/varied"], cpus: 1, memory_mb: 256 }),
  );
});

test("a build that fails names its step, and can be read again", async () => {
  await using world = await startMcpWorld();
  const failed = await world.call("build_template", { name: "failing", base: "none" });
  expect(failed.isError).toBe(true);
  expect(failed.text).toMatch(
    /^failed_precondition: the build failed at step base: .*not found.*\nstatus: error \| /,
  );
  const [, id = ""] = /build_id: (\S+)/.exec(failed.text) ?? [];
  const again = await world.call("build_template", { build_id: id, cursor: 0, wait_seconds: 0 });
  expect(again.isError).toBe(true);
  expect(again.text).toMatch(/^failed_precondition: .*\nstatus: error /);
  expect(again.text).toContain("not found");
  // Its template is there.
  const early = await world.call("create_sandbox", { template: "failing" });
  expect(early.text).toMatch(
    /^not_found: .*The template has no finished build of this tag\. get_template tells its builds\.$/,
  );
});

test("a build whose ready command never succeeds is cancelled by the next one of its name", async () => {
  await using world = await startMcpWorld();
  const stuck = { name: "stuck", ready_command: "sleep 3600", wait_seconds: 0 };
  const first = await world.call("build_template", stuck);
  expect(first.text).toContain(" | the build continues; a new build of the same name cancels it\n");
  const [, id = ""] = /build_id: (\S+)/.exec(first.text) ?? [];
  const next = await world.call("build_template", { name: "stuck", ready_command: "true" });
  expect(next.text).toMatch(/^status: ready /);
  const ended = await world.call("build_template", { build_id: id });
  expect(ended.text).toMatch(/^failed_precondition: the build failed .*cancelled: build \S+ of/);
});

test("a new build needs a name, a malformed variable is refused by its step", async () => {
  await using world = await startMcpWorld();
  expect((await world.call("build_template", {})).text).toMatch(
    /^invalid_argument: name is required/,
  );
  const steps = [{ type: "env", value: "=x" }];
  const refused = await world.call("build_template", { name: "x", steps });
  expect(refused.text).toContain("step 1 (ENV)");
});

test("a variable without a value is refused before a template of the name exists", async () => {
  await using world = await startMcpWorld();
  const steps = [
    { type: "env", value: "EMPTY=" },
    { type: "env", value: "TOKEN" },
  ];
  const refused = await world.call("build_template", { name: "valueless", steps });
  expect(refused.text).toMatch(/^invalid_argument: step 2: env takes NAME=value, not TOKEN/);
  const listed = await world.call("list_templates", {});
  expect(JSON.stringify(listed.fields["templates"])).not.toContain("valueless");
});

test.for(["base", "Base:v2", "local/base", "host", "code-interpreter", "code-interpreter-v1"])(
  "the name %s of a built-in template is given to no other one",
  async (name) => {
    await using world = await startMcpWorld();
    const { fields } = await world.call("create_sandbox", {});
    const told = /^invalid_argument: \S+ is the name of a built-in template.*Choose another name/s;
    const named = { sandbox_id: fields["sandbox_id"], name };
    expect((await world.call("snapshot", named)).text).toMatch(told);
    expect((await world.call("build_template", { name, steps: [] })).text).toMatch(told);
    const listed = await world.call("list_templates", {});
    expect(JSON.stringify(listed.fields["templates"])).not.toContain("local/");
  },
);
