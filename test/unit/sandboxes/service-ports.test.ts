import { expect, test } from "vitest";
import { INTERPRETER_TEMPLATE } from "../../../src/engine/templates/interpreter.ts";
import { servicePortsOf } from "../../../src/sandboxes/service-ports.ts";
import { newTemplate } from "../../../src/sandboxes/templates/new-template.ts";
import { openStore } from "../../../src/store/sqlite.ts";
import type { TemplateRecord } from "../../../src/store/store.ts";

const TEMPLATE = newTemplate("local", "one", 0);

function portsOf(facts: Pick<TemplateRecord, "kind" | "name">): readonly number[] {
  using store = openStore({ path: ":memory:" });
  store.templates.put({ ...TEMPLATE, ...facts });
  return servicePortsOf(store, TEMPLATE.templateId);
}

test("the service of a built-in template is given the token, that of any other template is not", () => {
  expect(portsOf({ kind: "built-in", name: INTERPRETER_TEMPLATE })).toEqual([49_999]);
  expect(portsOf({ kind: "snapshot", name: INTERPRETER_TEMPLATE })).toEqual([]);
  expect(portsOf({ kind: "built-in", name: "base" })).toEqual([]);
  expect(portsOf({ kind: "built-in", name: "constructor" })).toEqual([]);
});
