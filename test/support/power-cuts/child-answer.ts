/** What a program of the tests answers over its channel. */

import type { ChildProcess } from "node:child_process";
import { once } from "node:events";

/** Its next message. @throws Error when it ends instead. */
export async function answerOf(child: ChildProcess, name: string): Promise<unknown> {
  const stop = new AbortController();
  const ended = once(child, "exit", { signal: stop.signal }).then(() => {
    throw new Error(`the ${name} ended`);
  });
  const [answer] = await Promise.race([once(child, "message", { signal: stop.signal }), ended]);
  stop.abort();
  // Its wait was given up.
  await ended.catch(() => undefined);
  return answer;
}
