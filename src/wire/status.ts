/** Error codes on HTTP: what each side sends and how the other reads it. */

import type { ErrorCode } from "../common/errors.ts";
import { z } from "../common/schema.ts";

/** Statuses of the Connect protocol for unary replies. */
export const CONNECT_STATUS = {
  invalid_argument: 400,
  unauthenticated: 401,
  permission_denied: 403,
  not_found: 404,
  already_exists: 409,
  failed_precondition: 400,
  resource_exhausted: 429,
  deadline_exceeded: 504,
  canceled: 499,
  unavailable: 503,
  unimplemented: 501,
  internal: 500,
} as const satisfies Record<ErrorCode, number>;

/** Statuses of the control API; they differ from Connect's in the state conflict. */
export const CONTROL_STATUS = {
  ...CONNECT_STATUS,
  failed_precondition: 409,
} as const satisfies Record<ErrorCode, number>;

/** The body of every plain HTTP error: `code` equals the status. */
export const errorBodySchema = z.object({
  code: z.int(),
  message: z.string(),
  error_code: z.string().optional(),
});

export type ErrorBody = z.infer<typeof errorBodySchema>;

const CODE_OF_STATUS: Readonly<Record<number, ErrorCode>> = {
  400: "invalid_argument",
  401: "unauthenticated",
  403: "permission_denied",
  404: "not_found",
  405: "unimplemented",
  409: "failed_precondition",
  413: "resource_exhausted",
  422: "invalid_argument",
  429: "resource_exhausted",
  499: "canceled",
  501: "unimplemented",
  502: "unavailable",
  503: "unavailable",
  504: "deadline_exceeded",
  507: "resource_exhausted",
};

/** Our code for the status of a plain HTTP reply. A refusal with another one has a reason for the user. */
export function codeOfStatus(status: number): ErrorCode {
  const isRefusal = status >= 400 && status < 500;
  return CODE_OF_STATUS[status] ?? (isRefusal ? "permission_denied" : "internal");
}
