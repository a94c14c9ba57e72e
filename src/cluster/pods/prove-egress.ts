/** Shows that the cluster enforces NetworkPolicies on a Pod, before any program of a client runs in it. */

import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { SandboxError } from "../../common/errors.ts";
import { parseJson } from "../../common/json.ts";
import { z } from "../../common/schema.ts";
import { askDaemon } from "./ask-daemon.ts";
import type { PodDialer } from "./dial.ts";

/** Network plugins apply policies to a new Pod within this time. */
const APPLY_MS = 5_000;
const POLL_MS = 250;
/** In a row: one lost packet, or a Pod that is frozen for a second, fails one. */
const FAILED_ATTEMPTS = 2;
const MAX_REPLY_BYTES = 1_024;

const replySchema = z.object({ isReached: z.boolean() });

/**
 * The Pod is asked to connect to this front, which no rules of a sandbox open.
 * @throws SandboxError unimplemented when it still can in the end.
 */
export async function proveEnforcement(
  dialer: Pick<PodDialer, "dialControl">,
  signal: AbortSignal,
): Promise<void> {
  const endMs = performance.now() + APPLY_MS;
  const host = await findOwnAddress(dialer, signal);
  await using stack = new AsyncDisposableStack();
  const server = createServer((socket) => socket.destroy());
  server.listen({ host, port: 0 });
  // It comes at once, whether or not a caller waits: a server is not closed before it listens.
  await once(server, "listening");
  stack.defer(() => void server.close());
  // A server that listens on TCP has such an address.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  const { port } = server.address() as AddressInfo;
  for (let failed = 0; ;) {
    const call = { path: "/reach", maxBytes: MAX_REPLY_BYTES, body: { host, port } };
    const body = await askDaemon(dialer, call, signal);
    const { isReached } = replySchema.parse(parseJson(body));
    failed = isReached ? 0 : failed + 1;
    if (failed === FAILED_ATTEMPTS) return;
    if (isReached && performance.now() > endMs) break;
    await delay(POLL_MS, undefined, { signal });
  }
  throw new SandboxError("unimplemented", "this cluster enforces no NetworkPolicy", {
    hint: "it needs a network plugin that does, the policies of the chart, and --egress-denied with the networks of Pods and nodes",
  });
}

/** As the Pod sees it: from where its daemon is reached. */
async function findOwnAddress(
  dialer: Pick<PodDialer, "dialControl">,
  signal: AbortSignal,
): Promise<string> {
  const socket = await dialer.dialControl(signal);
  const address = socket.localAddress;
  socket.destroy();
  if (address !== undefined) return address;
  throw new SandboxError("unavailable", "the Pod of the sandbox closed the connection");
}
