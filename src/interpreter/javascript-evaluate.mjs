/** The evaluation of a cell by V8, as a console does it. */

import { promiseHooks } from "node:v8";

/** A cell may declare these names for itself, in the scope that all scripts and modules share. */
const { Promise, Set } = globalThis;
/** Of cells that have not ended; some never do. */
const promises = new Set();
/** A cell may replace the methods of all sets. */
const keep = promises.add.bind(promises);
const release = promises.delete.bind(promises);

/**
 * Resolves with V8's answer; rejects when there is none, as after an interrupt.
 *
 * V8 gives a cell up once nothing can settle its promise any more, and tells that during a collection of
 * garbage, where releases of Node 22 to 25 end the process. So the promise is kept.
 */
export function evaluate(session, params) {
  return new Promise((resolve, reject) => {
    let own;
    // The first one is that of the cell.
    const stop = promiseHooks.onInit((promise) => {
      own = promise;
      keep(own);
      stop();
    });
    try {
      session.post("Runtime.evaluate", params, (error, answer) => {
        release(own);
        if (error) reject(error);
        else resolve(answer);
      });
    } finally {
      stop();
    }
  });
}
