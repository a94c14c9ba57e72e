/** What stands behind an error: its cause, and the errors that it holds. */

const MAX_LAYERS = 8;

/** What failed, where the end of its scope (`using`) failed after it as well. */
export function firstFault(error: unknown): unknown {
  let current = error;
  for (let layer = 0; layer < MAX_LAYERS && current instanceof SuppressedError; layer += 1) {
    current = current.suppressed;
  }
  return current;
}

/** The errors behind one, nearest first, at most `max`. */
export function reasonsOf(error: unknown, max: number): Error[] {
  const found: Error[] = [];
  const waiting = directReasons(error);
  while (waiting.length > 0 && found.length < max) {
    const next = waiting.shift();
    if (!(next instanceof Error)) continue;
    found.push(next);
    waiting.push(...directReasons(next));
  }
  return found;
}

function directReasons(error: unknown): unknown[] {
  if (error instanceof SuppressedError) return [error.suppressed, error.error];
  if (error instanceof AggregateError) return [error.cause, ...error.errors.slice(0, MAX_LAYERS)];
  return error instanceof Error ? [error.cause] : [];
}
