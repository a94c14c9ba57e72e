/** Error codes of Connect beside ours, and the body of an error that is sent without the library. */

import { Code, type ConnectError } from "@connectrpc/connect";
import { errorToJson } from "@connectrpc/connect/protocol-connect";
import type { ErrorCode } from "../common/errors.ts";
import type { ContentType } from "./content-type.ts";
import { END_STREAM_FLAG, encodeEnvelope } from "./envelope.ts";

/** Connect's code for each of ours. */
export const CONNECT_CODES = {
  invalid_argument: Code.InvalidArgument,
  unauthenticated: Code.Unauthenticated,
  permission_denied: Code.PermissionDenied,
  not_found: Code.NotFound,
  already_exists: Code.AlreadyExists,
  failed_precondition: Code.FailedPrecondition,
  resource_exhausted: Code.ResourceExhausted,
  deadline_exceeded: Code.DeadlineExceeded,
  canceled: Code.Canceled,
  unavailable: Code.Unavailable,
  unimplemented: Code.Unimplemented,
  internal: Code.Internal,
} as const satisfies Record<ErrorCode, Code>;

/** Our code for each of Connect's. */
export const ERROR_CODES = {
  [Code.Canceled]: "canceled",
  [Code.Unknown]: "internal",
  [Code.InvalidArgument]: "invalid_argument",
  [Code.DeadlineExceeded]: "deadline_exceeded",
  [Code.NotFound]: "not_found",
  [Code.AlreadyExists]: "already_exists",
  [Code.PermissionDenied]: "permission_denied",
  [Code.ResourceExhausted]: "resource_exhausted",
  [Code.FailedPrecondition]: "failed_precondition",
  [Code.Aborted]: "failed_precondition",
  [Code.OutOfRange]: "invalid_argument",
  [Code.Unimplemented]: "unimplemented",
  [Code.Internal]: "internal",
  [Code.Unavailable]: "unavailable",
  [Code.DataLoss]: "internal",
  [Code.Unauthenticated]: "unauthenticated",
} as const satisfies Record<Code, ErrorCode>;

/**
 * The body of a call that failed before its message was read: the end of a stream, or an error
 * object for every other content type.
 */
export function encodeError(error: ConnectError, type: ContentType | undefined): Buffer {
  const json = errorToJson(error, undefined);
  if (type?.isStream !== true) return Buffer.from(JSON.stringify(json));
  return encodeEnvelope(JSON.stringify({ error: json }), END_STREAM_FLAG);
}
