/** The two ends of a connection inside this process. */

import { Duplex } from "node:stream";

export interface ConnectionPair {
  /** Its owner says when the other end may write on. */
  readonly inner: Duplex;
  readonly outer: Duplex;
}

/**
 * What one end writes the other one reads. A write to the inner end is over when `whenTaken` calls back,
 * which is asked once its reader wants more; one to the outer end at once then.
 */
export function openPair(whenTaken: (goOn: () => void) => void): ConnectionPair {
  const writes = new Map<Duplex, () => void>();

  function goOn(reader: Duplex): void {
    const done = writes.get(reader);
    writes.delete(reader);
    done?.();
  }

  function open(peer: () => Duplex, read: (end: Duplex) => void): Duplex {
    return new Duplex({
      read() {
        read(this);
      },
      write(chunk: Buffer, _encoding, done) {
        if (chunk.length === 0) {
          process.nextTick(done);
          return;
        }
        writes.set(peer(), done);
        peer().push(chunk);
      },
      final(done) {
        peer().push(null);
        done();
      },
      destroy(error, done) {
        peer().push(null);
        done(error);
      },
    });
  }

  const inner: Duplex = open(
    () => outer,
    (end) => whenTaken(() => goOn(end)),
  );
  const outer: Duplex = open(() => inner, goOn);
  return { inner, outer };
}
