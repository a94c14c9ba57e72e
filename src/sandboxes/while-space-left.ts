/** Work whose bytes are not known before: it is ended when the disk has too little left. */

import { anySignal } from "../common/any-signal.ts";

/** A fast disk takes some hundred megabytes in it. */
const LOOK_MS = 100;

interface DiskLooks {
  readonly signal: AbortSignal;
  /** Rejects when the disk has too little left. */
  readonly requireSpaceLeft: () => Promise<void>;
}

/**
 * Looks before the work and while it goes on, one look at a time: on a disk that hangs, looks must not
 * wait for it by the thousand.
 * @throws what `requireSpaceLeft` and the work throw
 */
export async function whileSpaceLeft<T>(
  { signal, requireSpaceLeft }: DiskLooks,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  await requireSpaceLeft();
  const full = new AbortController();
  let isLooking = false;
  const look = async (): Promise<void> => {
    if (isLooking) return;
    isLooking = true;
    await requireSpaceLeft().catch((error: unknown) => full.abort(error));
    isLooking = false;
  };
  // It never rejects.
  const timer = setInterval(() => void look(), LOOK_MS);
  try {
    return await work(anySignal([signal, full.signal]));
  } catch (error) {
    throw full.signal.aborted && !signal.aborted ? full.signal.reason : error;
  } finally {
    clearInterval(timer);
  }
}
