/** The model of a value that several clients change at once refuses what no order of changes allows. */

import { expect, test } from "vitest";
import { Moments, Register } from "../../support/sequences/register.ts";

function open(): { readonly moments: Moments; readonly register: Register<string> } {
  const moments = new Moments();
  return { moments, register: new Register(moments, "first") };
}

const sorted = (values: ReadonlySet<string>) => [...values].toSorted();

test("after a change that is over, only its value fits", () => {
  const { moments, register } = open();
  register.begin("second").done();
  expect(sorted(register.possible(moments.next()))).toEqual(["second"]);
});

test("while a change is open, both values fit, and after one that never came the old one alone", () => {
  const { moments, register } = open();
  const change = register.begin("second");
  expect(sorted(register.possible(moments.next()))).toEqual(["first", "second"]);
  change.undone();
  expect(sorted(register.possible(moments.next()))).toEqual(["first"]);
});

test("a read that began before the end of a change may have the value before it", () => {
  const { moments, register } = open();
  const change = register.begin("second");
  const beganAt = moments.next();
  change.done();
  expect(sorted(register.possible(beganAt))).toEqual(["first", "second"]);
});

test("of two changes at once either may be the last; one that began after both is it", () => {
  const { moments, register } = open();
  const changes = [register.begin("second"), register.begin("third")];
  for (const change of changes) change.done();
  expect(sorted(register.possible(moments.next()))).toEqual(["second", "third"]);
  register.begin("fourth").done();
  expect(sorted(register.possible(moments.next()))).toEqual(["fourth"]);
});

test("a change of which nobody knows whether it came leaves the value before it possible", () => {
  const { moments, register } = open();
  register.begin("second").unsure();
  expect(sorted(register.possible(moments.next()))).toEqual(["first", "second"]);
});

test("a change to an unknown value lets any read fit until its answer tells the value", () => {
  const { moments, register } = open();
  const change = register.beginUnknown();
  expect(register.fits(moments.next(), (value) => value === "other")).toBe(true);
  change.done({ is: "told" });
  expect(register.fits(moments.next(), (value) => value === "other")).toBe(false);
  expect(sorted(register.possible(moments.next()))).toEqual(["told"]);
});
