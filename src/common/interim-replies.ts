/** Replies with a status of 1xx: a server may send them before its reply, without end. */

import type { ClientRequest } from "node:http";

/** A service that reports its progress every second has half an hour. */
export const MAX_INTERIM_REPLIES = 2_048;
/** Of a daemon to a call of the service itself; ours sends none. */
export const MAX_DAEMON_REPLIES = 8;

/** Ends a call whose server sends more of them than that. */
export function limitInterimReplies(call: ClientRequest, max = MAX_INTERIM_REPLIES): void {
  let count = 0;
  call.on("information", () => {
    count += 1;
    if (count > max) call.destroy(new Error("too many interim replies"));
  });
}
