/**
 * A create that may be sent again. Its key is written in the transaction that makes its sandbox a
 * running one, so a crash at any moment leaves both or neither: after a crash that left neither, the
 * next request with the key creates a new sandbox.
 */

import { createSandbox, type CreateContext } from "./create-sandbox.ts";
import { creationUnderWay, findCreation, requireSameRequest } from "./creation-record.ts";
import type { CreateOptions, StartedSandbox } from "./sandbox.ts";

/**
 * As `createSandbox`; a request that was answered with a sandbox is answered so again.
 * @throws SandboxError also invalid_argument for a key of another request, failed_precondition while
 * the first is under way.
 */
export async function createOnce(
  context: CreateContext,
  options: CreateOptions,
  signal: AbortSignal,
): Promise<StartedSandbox> {
  const { once } = options;
  if (once === undefined) return createSandbox(context, options, signal);
  const known = findCreation(context, once);
  if (known !== undefined) return known;
  const name = `${context.team}/${once.key}`;
  const running = context.activeCreates.get(name);
  if (running !== undefined) {
    requireSameRequest(once, running);
    throw creationUnderWay();
  }
  context.activeCreates.set(name, once.fingerprint);
  try {
    return await createSandbox(context, options, signal);
  } finally {
    context.activeCreates.delete(name);
  }
}
