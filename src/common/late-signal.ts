/** Time limits as signals that other signals can be made of. */

/**
 * A signal that fires after so many milliseconds; its timer keeps no process alive. Node never lets
 * go of a signal made by `AbortSignal.any` of one of `AbortSignal.timeout` once a further signal is
 * made of it: a kilobyte for each call.
 */
export function signalAfter(ms: number): AbortSignal {
  const controller = new AbortController();
  const expire = () => {
    const message = "The operation was aborted due to timeout";
    controller.abort(new DOMException(message, "TimeoutError"));
  };
  setTimeout(expire, ms).unref();
  return controller.signal;
}
