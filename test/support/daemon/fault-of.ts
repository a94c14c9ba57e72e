/** A failed RPC as a pair that can be compared: the name of its code, and its text. */

import { Code, ConnectError } from "@connectrpc/connect";

/** Waits for a promise to fail; one that does not gives `Unknown` and its value as text. */
export async function faultOf(promise: Promise<unknown>): Promise<[string, string]> {
  const error = ConnectError.from(await promise.catch((reason: unknown) => reason));
  return [Code[error.code], error.rawMessage];
}
