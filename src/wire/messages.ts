/** Sentences that the wire fixes for control API and gateway. Clients show them, tests compare them. */

/** Changes of state during which some requests are refused. */
export type Transition = "killing" | "pausing" | "resuming" | "snapshotting";

const TRANSITION_TEXT = {
  killing: "being killed",
  pausing: "being paused",
  resuming: "being resumed",
  snapshotting: "being snapshotted",
} as const satisfies Record<Transition, string>;

export const MESSAGES = {
  invalidSandboxId: "Invalid sandbox ID",
  invalidNextToken: "Invalid next token",
  timeoutNotPositive: "Timeout must be greater than 0",
  lifetimeExceeded: "Max instance length exceeded",
  pathUnknown: "validation error: no matching operation was found",
  methodUnknown: "validation error: method not allowed",
  keyMissing: "authorization header is missing",
  keyMalformed: "authorization header is malformed",
  keyNotHex: "Invalid API key: after the prefix e2b_ come 40 hexadecimal digits",
  keyUnknown: "Invalid API key: the service does not know it",
  publicTrafficNeedsToken:
    "You cannot create a sandbox without public access unless you enable secure envd access via 'secure' flag.",
  sandboxUnreachable: "The sandbox was not found",
  portClosed: "The sandbox is running but port is not open",
  tlsMissing: "The program on the port does not speak TLS, but httpsPorts names the port",
  replyMissing: "The program on the port closed the connection before its reply",
  replyInvalid: "The program on the port sent no valid HTTP reply",
  replyHeadTooLong: "The program on the port sent a reply whose headers are longer than 16 KiB",
  daemonSilent: "The daemon of the sandbox does not answer; its processes may have stopped it",
  trafficTokenMissing:
    "Sandbox is secured with traffic access token. Token header 'e2b-traffic-access-token' is missing",
  trafficTokenWrong:
    "Sandbox is secured with traffic access token. Provided token in header 'e2b-traffic-access-token' is invalid",
  reservedPath:
    "This endpoint is reserved for the E2B control plane and is not reachable through the sandbox URL",
  wakeRefused:
    "This sandbox can't be resumed with the credentials provided. Check your access token and try again.",
  stillChanging: "The sandbox is still transitioning. Try again in a moment.",
  forkTooFew: "Count must be at least 1",
  volumeNameWrong: "Invalid volume name",
  volumeIdWrong: "Invalid volume ID",
  volumeMissing: "Volume not found",
  signatureWrong: "invalid signature",
  signatureExpired: "signature is already expired",
} as const;

export function sandboxMissing(sandboxId: string): string {
  return `Sandbox "${sandboxId}" doesn't exist or you don't have access to it`;
}

export function sandboxInTransition(sandboxId: string, transition: Transition): string {
  return `Sandbox "${sandboxId}" is ${TRANSITION_TEXT[transition]}`;
}

export function sandboxAlreadyPaused(sandboxId: string): string {
  return `Error pausing sandbox - sandbox '${sandboxId}' is already paused`;
}

export function sandboxCannotBe(verb: string, sandboxId: string, state: string): string {
  return `Sandbox '${sandboxId}' cannot be ${verb} while in '${state}' state`;
}

export function sandboxPausedFork(sandboxId: string): string {
  return `Sandbox '${sandboxId}' is paused and cannot be forked; resume it first`;
}

export function forkTooMany(limit: number): string {
  return `Count must be lower than the maximum number of concurrent sandboxes (${limit})`;
}

export function sandboxAlreadyRunning(sandboxId: string): string {
  return `Sandbox ${sandboxId} is already running`;
}

export function timeoutTooLong(hours: number): string {
  return `Timeout cannot be greater than ${hours} hours`;
}

/** How many sandboxes there are and may be, for a team and for the service. */
export interface SandboxCounts {
  readonly own: number;
  readonly limit: number;
  readonly guaranteed: number;
  readonly maxSandboxes: number;
  /** Whether paused ones are counted too. */
  readonly countsPaused: boolean;
}

/** With the counts of the team, and without those of the others. */
export function tooManySandboxes(counts: SandboxCounts): string {
  const { own, limit, guaranteed, maxSandboxes, countsPaused } = counts;
  const isOwn = own >= limit && limit < maxSandboxes;
  const reached = isOwn ? limit : maxSandboxes;
  const setting = isOwn ? "--max-sandboxes-per-team" : "--max-sandboxes";
  const parts = [
    countsPaused
      ? `your team has ${own} of at most ${limit}, paused ones included`
      : `your team has ${own} running of at most ${limit}`,
    `the service takes ${maxSandboxes}`,
    ...(guaranteed < maxSandboxes ? [`each team is sure of ${guaranteed}`] : []),
  ];
  return `you have reached the maximum number of concurrent E2B sandboxes (${reached}): ${parts.join(", ")}. If you need more, raise ${setting}`;
}

export function tooManyConnections(limit: number): string {
  return `The sandbox has too many concurrent incoming connections (limit: ${limit})`;
}

export function templateMissing(reference: string): string {
  return `template '${reference}' not found`;
}

export function templateBuilding(name: string, progress: string): string {
  return `building the ${name} template, ${progress}`;
}

/** What such a message says of the progress, also where others stand around it. */
export function findBuilding(message: string): string | undefined {
  return /building the [a-z-]{1,64} template, [a-z0-9 ]{0,39}[a-z0-9]/.exec(message)?.[0];
}

export function templateForbidden(reference: string): string {
  return `You don't have access to template '${reference}'`;
}

export function templateInUse(templateId: string): string {
  return `cannot delete template '${templateId}' because there are running or paused sandboxes using it`;
}

export function tagMissing(tag: string, reference: string): string {
  return `tag '${tag}' does not exist for template '${reference}'`;
}

export function foreignNamespace(namespace: string, team: string): string {
  return `namespace '${namespace}' must match your team '${team}'`;
}

/** Of a template or a snapshot: why it was refused, and what would not be. */
export function malformedName(name: string): string {
  const form =
    "NAME, TEAM/NAME or NAME:TAG, each of 1 to 128 letters, digits, hyphens and underscores";
  return `Invalid name: '${name.slice(0, 200).toWellFormed()}' is not of the form ${form}`;
}
