/**
 * Which cell the running code belongs to: the one that started it, also by a timer, a promise or a
 * listener. A listener that the running cell causes to be called speaks for that cell, else for the
 * cell that added it, whoever emits the event. Code of a cell that has ended speaks to nobody.
 */

import { AsyncLocalStorage } from "node:async_hooks";
import { EventEmitter } from "node:events";
import process from "node:process";

/** A cell may declare this name for itself, in the scope that all scripts and modules share. */
const { Reflect } = globalThis;
const cells = new AsyncLocalStorage();
let running;
const bound = new WeakSet();
const wrappers = new WeakMap();
/** Node ends the process where a listener of these throws. */
const LAST_EVENTS = new Set(["uncaughtException", "uncaughtExceptionMonitor"]);

/** Runs the work of one cell, which is the running one until another begins or its work has ended. */
export async function runAs(cell, work) {
  running = cell;
  try {
    return await cells.run(cell, work);
  } finally {
    if (isRunning(cell)) running = undefined;
  }
}

export function isRunning(cell) {
  return running === cell;
}

/** Whether the code that asks belongs to the running cell, or to none. */
export function isHeard() {
  const cell = cells.getStore();
  return cell === undefined || isRunning(cell);
}

/** Binds each listener that a cell adds; `report` gets what one throws that no one may throw from. */
export function bindListeners(report) {
  const { prototype } = EventEmitter;
  for (const name of ["on", "addListener", "prependListener"]) {
    const add = prototype[name];
    define(prototype, name, function (type, listener) {
      return add.call(this, type, toBound(this, type, listener));
    });
  }
  for (const [name, adder] of [
    ["once", "on"],
    ["prependOnceListener", "prependListener"],
  ]) {
    const addOnce = prototype[name];
    define(prototype, name, function (type, listener) {
      const once = toBound(this, type, listener);
      if (once === listener) return addOnce.call(this, type, listener);
      return this[adder](type, toOnce(this, type, once));
    });
  }
  bindTargets();

  function toBound(emitter, type, listener) {
    const cell = cells.getStore();
    if (cell === undefined || typeof listener !== "function" || bound.has(listener))
      return listener;
    const isLast = emitter === process && LAST_EVENTS.has(type);
    function wrapper(...parameters) {
      const call = () => Reflect.apply(listener, this, parameters);
      return speakFor(cell, isLast ? () => attempt(call) : call);
    }
    return toWrapper(wrapper, listener);
  }

  function attempt(call) {
    try {
      return call();
    } catch (error) {
      return report(error);
    }
  }
}

function define(target, name, value) {
  Object.defineProperty(target, name, { value, writable: true, configurable: true });
}

function speakFor(cell, call) {
  const isCalledByRunning = running !== undefined && isRunning(cells.getStore());
  return isCalledByRunning ? call() : cells.run(cell, call);
}

/** Emitters take a listener away, and list it, by this property too. */
function toWrapper(wrapper, listener) {
  wrapper.listener = listener.listener ?? listener;
  bound.add(wrapper);
  return wrapper;
}

function toOnce(emitter, type, listener) {
  let isDone = false;
  function once(...parameters) {
    if (isDone) return undefined;
    isDone = true;
    emitter.removeListener(type, once);
    return Reflect.apply(listener, this, parameters);
  }
  return toWrapper(once, listener);
}

/** Targets compare listeners by identity: one has one wrapper, of the last cell that added it. */
function bindTargets() {
  const { prototype } = EventTarget;
  const [add, remove] = ["addEventListener", "removeEventListener"].map((name) => prototype[name]);
  define(prototype, "addEventListener", function (type, listener, options) {
    const cell = cells.getStore();
    const isBound = cell !== undefined && typeof listener === "function";
    return add.call(this, type, isBound ? wrapFor(cell, listener) : listener, options);
  });
  define(prototype, "removeEventListener", function (type, listener, options) {
    remove.call(this, type, listener, options);
    const known = typeof listener === "function" ? wrappers.get(listener) : undefined;
    return known && remove.call(this, type, known.wrapper, options);
  });
}

function wrapFor(cell, listener) {
  const known = wrappers.get(listener);
  if (known !== undefined) {
    known.cell = cell;
    return known.wrapper;
  }
  const entry = { cell };
  entry.wrapper = function (...parameters) {
    return speakFor(entry.cell, () => Reflect.apply(listener, this, parameters));
  };
  wrappers.set(listener, entry);
  return entry.wrapper;
}
