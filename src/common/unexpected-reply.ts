/** Replies that no service of the E2B API sends: those of proxies, or of services of other makers. */

import { SandboxError } from "./errors.ts";
import { cutText, quoteWords } from "./untrusted-text.ts";

/** A library may quote the whole of a message that it could not read. */
const MAX_FAULT_CHARACTERS = 1_024;

/**
 * A fault of neither the caller nor what was called: no log of a service may tell of it, so its hint does.
 * @param subject what was asked for
 */
export function unexpectedReply(
  fault: string,
  { subject, cause }: { readonly subject?: string; readonly cause?: unknown } = {},
): SandboxError {
  const about = subject === undefined ? "" : `${subject}: `;
  const hint =
    `The reply of the sandbox service is not that of the E2B API: ${about}${quoteWords(fault)}. ` +
    "Look before you repeat a call that changes something; tell the user.";
  const message = `${about}unexpected reply: ${cutText(fault, MAX_FAULT_CHARACTERS)}`;
  return new SandboxError("internal", message, { cause, hint });
}
