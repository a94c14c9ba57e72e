/** What all watches together hold of events that no client fetched; the fullest gives way first. */

import { SandboxError } from "../../common/errors.ts";
import type { EventQueue } from "../queue.ts";

/** An eighth of the daemon's heap; some 60,000 events without entries. */
const MAX_BYTES = 16_777_216;

interface Account {
  bytes: number;
  readonly end: () => void;
}

/** One sum over the queues of all watches. */
export class WatchBacklog<T> {
  readonly #accounts = new Map<EventQueue<T>, Account>();
  #bytes = 0;

  /** Counts a queue from now on; `end` stops what fills it when it has to give way. */
  open(queue: EventQueue<T>, end: () => void): void {
    this.#accounts.set(queue, { bytes: 0, end });
  }

  /** Brings the sum in line with a queue that has grown or shrunk. */
  settle(queue: EventQueue<T>): void {
    const account = this.#accounts.get(queue);
    if (account === undefined) return;
    this.#bytes += queue.bytes - account.bytes;
    account.bytes = queue.bytes;
    if (this.#bytes > MAX_BYTES) this.#dropFullest();
  }

  close(queue: EventQueue<T>): void {
    this.#bytes -= this.#accounts.get(queue)?.bytes ?? 0;
    this.#accounts.delete(queue);
  }

  #dropFullest(): void {
    const [first, ...others] = this.#accounts;
    if (first === undefined) return;
    const [queue, account] = others.reduce(
      (fullest, item) => (item[1].bytes > fullest[1].bytes ? item : fullest),
      first,
    );
    account.end();
    queue.fail(new SandboxError("internal", "watcher error: queue or buffer overflow"));
    this.settle(queue);
  }
}
