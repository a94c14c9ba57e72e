/**
 * A create that may be sent again. Its key is written in the transaction that makes its sandbox a
 * running one, so a crash at any moment leaves both or neither: after a crash that left neither, the
 * next request with the key creates a new sandbox.
 */

import { findCreation, whileActive } from "../creation-record.ts";
import type { CreateOptions, StartedSandbox } from "../sandbox.ts";
import { createSandbox, type CreateContext } from "./create-sandbox.ts";

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
  return whileActive(context, { ...once, name }, () => createSandbox(context, options, signal));
}
