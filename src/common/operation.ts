/**
 * Which operation the running code belongs to, so that an uncaught error reaches the caller that
 * waits for that operation, and is logged with its name.
 */

import { AsyncLocalStorage } from "node:async_hooks";
import type { EventEmitter } from "node:events";

export interface Operation {
  /** As in log lines, such as `http.request`. */
  readonly name: string;
  /** Ends it for its caller; false when no caller waits any more. */
  fail(error: unknown): boolean;
}

/** As long as a daemon has to answer. */
const CHANGE_GRACE_MS = 10_000;

const operations = new AsyncLocalStorage<Operation>();

/** What a synchronous throw left behind: its operation is over before the error is handled. */
const owners = new WeakMap<object, Operation>();

/** The operation in which an uncaught error was thrown. */
export function operationOf(error: unknown): Operation | undefined {
  const owner = typeof error === "object" && error !== null ? owners.get(error) : undefined;
  return owner ?? operations.getStore();
}

/** Runs the work, and whatever it starts, as part of the operation. */
export function runOperation<T>(operation: Operation, work: () => T): T {
  try {
    return operations.run(operation, work);
  } catch (error) {
    if (typeof error === "object" && error !== null) owners.set(error, operation);
    throw error;
  }
}

/** Has the listeners of an emitter that is older than the operation run as part of it. */
export function bindEmitter(emitter: EventEmitter, operation: Operation): void {
  const emit = emitter.emit.bind(emitter);
  emitter.emit = (...event) => runOperation(operation, () => emit(...event));
}

/**
 * What fails an operation whose caller is this emitter, until it closes. A timer that was started in the
 * operation holds it, for hours if it lasts as long; what is closed is not to be held with it.
 */
export function failUntilClosed<T extends EventEmitter>(
  emitter: T,
  fail: (emitter: T) => boolean,
): () => boolean {
  let open: T | undefined = emitter;
  emitter.once("close", () => {
    open = undefined;
  });
  return () => open !== undefined && fail(open);
}

/**
 * Runs the work as an operation of its own. An uncaught error inside, such as one thrown in
 * a timer or by an emitter, rejects it like one of its own; what the work still does is not waited for.
 * Once it is over, errors go to the operation that it was part of.
 */
export async function asOperation<T>(name: string, work: () => Promise<T>): Promise<T> {
  return run(name, work, 0);
}

/**
 * The same for work that must not be abandoned half way: after an uncaught error it has some
 * seconds to come to its end, and if it does, that is what counts.
 */
export async function asChange<T>(name: string, work: () => Promise<T>): Promise<T> {
  return run(name, work, CHANGE_GRACE_MS);
}

async function run<T>(name: string, work: () => Promise<T>, graceMs: number): Promise<T> {
  const { promise: failed, reject } = Promise.withResolvers<never>();
  const whole = operations.getStore();
  let timer: NodeJS.Timeout | undefined;
  let isOver = false;
  const operation: Operation = {
    name,
    fail(error) {
      if (isOver) return whole?.fail(error) ?? false;
      if (graceMs === 0) reject(error);
      else timer ??= setTimeout(() => reject(error), graceMs).unref();
      return true;
    },
  };
  try {
    return await Promise.race([runOperation(operation, work), failed]);
  } finally {
    isOver = true;
    clearTimeout(timer);
  }
}
