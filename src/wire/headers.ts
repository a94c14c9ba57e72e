/** Header names, versions and fixed values of the wire. */

export const SANDBOX_ID_HEADER = "e2b-sandbox-id";
export const SANDBOX_PORT_HEADER = "e2b-sandbox-port";
export const API_KEY_HEADER = "x-api-key";
export const IDEMPOTENCY_KEY_HEADER = "idempotency-key";
export const ACCESS_TOKEN_HEADER = "x-access-token";
export const TRAFFIC_TOKEN_HEADER = "e2b-traffic-access-token";
export const NEXT_TOKEN_HEADER = "x-next-token";
export const TOTAL_RUNNING_HEADER = "x-total-running";
/** Ours alone, of the reply of a pause: the `pauseMode` that the sandbox has from then on. */
export const PAUSE_MODE_HEADER = "x-pause-mode";
/** Ours alone, of an upload of one file: the SHA-256 of what the file must still hold; 412 if not. */
export const IF_CONTENT_HEADER = "x-if-content-sha256";
export const KEEPALIVE_INTERVAL_HEADER = "keepalive-ping-interval";

/** The port under which the daemon of a sandbox is reached. */
export const ENVD_PORT = 49_983;

/** The version of the daemon; gates in the official clients compare it as a semantic version. */
export const ENVD_VERSION = "0.6.13";

/** Deprecated, required in replies, always the same. */
export const CLIENT_ID = "6532622b";

/** Paths of the daemon that only the host may call; all are refused at the gateway. */
export const CONTROL_PATHS: readonly string[] = [
  "/init",
  "/freeze",
  "/unfreeze",
  "/collapse",
  "/fsfreeze",
  "/fsthaw",
  "/upgrade",
];

/** On the host's own channel: which daemon numbers its log lines, one for each of its starts. */
export const DAEMON_ID_HEADER = "x-daemon-id";
