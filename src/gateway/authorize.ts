/** Whether a request may enter a sandbox, and which one: the checks in the order of the wire. */

import type { IncomingMessage } from "node:http";
import { posix } from "node:path";
import { SandboxError, type ErrorCode } from "../common/errors.ts";
import type { Endpoint } from "../sandboxes/run.ts";
import type { Sandboxes } from "../sandboxes/sandboxes.ts";
import type { SandboxAddress } from "../wire/address.ts";
import {
  ACCESS_TOKEN_HEADER,
  ENVD_PORT,
  TRAFFIC_TOKEN_HEADER,
  CONTROL_PATHS,
} from "../wire/headers.ts";
import { MESSAGES } from "../wire/messages.ts";
import { equalSecrets } from "../wire/signature.ts";
import {
  cannotWake,
  notAdopted,
  notRunning,
  reserved,
  tooManyWrong,
  trafficToken,
  type Refusal,
} from "./refusal.ts";
import {
  type SignatureAttempts,
  findOnlyOpen,
  findSignedSandbox,
  isWrongSignature,
  signatureOf,
} from "./signed-file-url.ts";

export interface Admission {
  readonly endpoint: Endpoint;
  readonly port: number;
}

/** What the gateway asks the sandbox registry. */
export type SandboxLookup = Pick<
  Sandboxes,
  "locate" | "endpoints" | "wake" | "findEntryFault" | "stopped"
>;

/** What the decision depends on besides the request. */
export interface AuthorizeContext {
  readonly sandboxes: SandboxLookup;
  readonly attempts: SignatureAttempts;
  /** Whether several teams have keys: then a sandbox must be named, or a signature must be its own. */
  readonly isShared: () => boolean;
}

/**
 * Without an address the request is a file's, and its signature says whose. Waits while a paused
 * sandbox is woken.
 */
export async function authorize(
  request: IncomingMessage,
  address: SandboxAddress | undefined,
  context: AuthorizeContext,
): Promise<Admission | Refusal> {
  const { sandboxes, attempts } = context;
  const signature = signatureToCheck(request, address);
  const { remoteAddress } = request.socket;
  const waitSeconds = signature === undefined ? 0 : attempts.waitSeconds(remoteAddress, signature);
  if (waitSeconds > 0) return tooManyWrong(waitSeconds);
  const admission =
    address === undefined
      ? admitUnaddressed(request, context)
      : await admitAddressed(request, address, sandboxes);
  if (signature !== undefined && isWrong(request, admission)) attempts.noteWrong(remoteAddress);
  return admission;
}

/** The signature that decides about a request; a token beside it decides alone. */
function signatureToCheck(
  request: IncomingMessage,
  address: SandboxAddress | undefined,
): string | undefined {
  if (address !== undefined) {
    if (address.port !== ENVD_PORT) return undefined;
    if ((request.headers[ACCESS_TOKEN_HEADER] ?? "") !== "") return undefined;
  }
  return signatureOf(request);
}

const UNAUTHENTICATED = 401;

/** A daemon says itself what is wrong with a signature, but is not asked whether to count it. */
function isWrong(request: IncomingMessage, admission: Admission | Refusal): boolean {
  if ("status" in admission) return admission.status === UNAUTHENTICATED;
  const { accessToken } = admission.endpoint;
  return accessToken !== undefined && isWrongSignature(request, accessToken);
}

async function admitAddressed(
  request: IncomingMessage,
  address: SandboxAddress,
  sandboxes: SandboxLookup,
): Promise<Admission | Refusal> {
  const { sandboxId, port } = address;
  if (port === ENVD_PORT) {
    const path = findReservedPath(request.url ?? "/");
    if (path !== undefined) return reserved(path);
  }
  const endpoint = await find(request, address, sandboxes);
  if ("status" in endpoint) return endpoint;
  const { trafficToken: expected } = endpoint;
  if (expected !== undefined && port !== ENVD_PORT) {
    const given = onlyValue(request, TRAFFIC_TOKEN_HEADER);
    if (given === undefined || !equalSecrets(given, expected))
      return trafficToken(sandboxId, given);
  }
  return { endpoint, port };
}

/** A signature lets its bearer at one file; it does not wake the sandbox. */
function admitUnaddressed(
  request: IncomingMessage,
  { sandboxes, isShared }: AuthorizeContext,
): Admission | Refusal {
  const endpoints = sandboxes.endpoints();
  const open = findOnlyOpen(request, endpoints);
  if (open !== undefined && !isShared()) return { endpoint: open, port: ENVD_PORT };
  const endpoint = findSignedSandbox(request, endpoints);
  if (!("status" in endpoint)) return { endpoint, port: ENVD_PORT };
  const stopped = findSignedSandbox(request, sandboxes.stopped());
  if ("status" in stopped) return endpoint;
  const { sandboxId, isWakeable, fault } = stopped;
  if (fault !== undefined) return notAdopted(sandboxId, fault.message);
  return isWakeable ? cannotWake(sandboxId, 403, MESSAGES.wakeRefused) : notRunning(sandboxId);
}

async function find(
  request: IncomingMessage,
  { sandboxId, port }: SandboxAddress,
  sandboxes: SandboxLookup,
): Promise<Endpoint | Refusal> {
  const running = sandboxes.locate(sandboxId);
  if (running !== undefined) return running;
  const wanted = {
    sandboxId,
    port,
    accessToken: onlyValue(request, ACCESS_TOKEN_HEADER),
    trafficToken: onlyValue(request, TRAFFIC_TOKEN_HEADER),
  };
  const fault = sandboxes.findEntryFault?.(wanted);
  if (fault !== undefined) return notAdopted(sandboxId, fault.message);
  try {
    return await sandboxes.wake(wanted);
  } catch (error) {
    return toRefusal(sandboxId, error);
  }
}

const WAKE_STATUS: Readonly<Partial<Record<ErrorCode, 403 | 409 | 429>>> = {
  permission_denied: 403,
  failed_precondition: 409,
  resource_exhausted: 429,
};

function toRefusal(sandboxId: string, error: unknown): Refusal {
  if (!(error instanceof SandboxError)) throw error;
  const { code, message } = error;
  const status = WAKE_STATUS[code];
  return status === undefined ? notRunning(sandboxId) : cannotWake(sandboxId, status, message);
}

/** A header that was sent once; two values could mean one thing here and another behind. */
function onlyValue(request: IncomingMessage, name: string): string | undefined {
  const values = request.headersDistinct[name];
  return values?.length === 1 ? values[0] : undefined;
}

/** The path reserved for the host that a target means once it is decoded and cleaned; undefined for others. */
export function findReservedPath(target: string): string | undefined {
  const [path = ""] = target.split("?", 1);
  const cleaned = posix.normalize(`/${decode(path)}`).replace(/(?<=.)\/+$/, "");
  return CONTROL_PATHS.find((candidate) => cleaned === candidate);
}

function decode(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch (error) {
    // What does not decode is no path of the daemon either.
    if (error instanceof URIError) return path;
    throw error;
  }
}
