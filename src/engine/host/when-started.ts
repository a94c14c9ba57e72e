/** The start of a program: one that does not come about is one failure, with one reason. */

import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { toSandboxError } from "../../common/errors.ts";

/**
 * The program once it has a process. Where Node lacks descriptors for its streams, it makes a child
 * that has none, and reports that later, by an event.
 * @throws SandboxError unavailable when it could not be started
 */
export async function whenStarted<Child extends ChildProcess>(
  subject: string,
  start: () => Child,
): Promise<Child> {
  try {
    const child = start();
    if (child.pid !== undefined) return child;
    const [fault] = await once(child, "error");
    throw fault;
  } catch (error) {
    throw toSandboxError(error, subject);
  }
}
