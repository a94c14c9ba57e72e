/** The same limit of interim replies as in common/interim-replies.ts, for the connections of this client. */

import type { Dispatcher } from "undici";
import { MAX_INTERIM_REPLIES } from "../common/interim-replies.ts";

const FIRST_FINAL = 200;

/** Requests whose server sends more of them fail. */
export function interimLimit(max = MAX_INTERIM_REPLIES): Dispatcher.DispatcherComposeInterceptor {
  return (dispatch) => (options, handler) => dispatch(options, limited(handler, max));
}

/** The same handler; its request fails then. */
export function limited(
  handler: Dispatcher.DispatchHandler,
  max: number,
): Dispatcher.DispatchHandler {
  let count = 0;
  return {
    onRequestStart: (...facts) => handler.onRequestStart?.(...facts),
    onRequestUpgrade: (...facts) => handler.onRequestUpgrade?.(...facts),
    onResponseStart(controller, status, ...facts) {
      count += status < FIRST_FINAL ? 1 : 0;
      if (count > max) controller.abort(new Error("too many interim replies"));
      else handler.onResponseStart?.(controller, status, ...facts);
    },
    onResponseData: (...facts) => handler.onResponseData?.(...facts),
    onResponseEnd: (...facts) => handler.onResponseEnd?.(...facts),
    onResponseError: (...facts) => handler.onResponseError?.(...facts),
  };
}
