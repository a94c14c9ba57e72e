/** The egress program's proxy for plain HTTP, whose one allowed name is a port of this machine. */

import { once } from "node:events";
import { connect } from "node:net";
import { createWebServer } from "../../../src/egress/http-proxy.ts";
import { createPolicies } from "../../../src/egress/policies.ts";
import { listenOnLoopback } from "../loopback.ts";

/** Its port. `allowed.test` is the host at `hostPort`; all ends with the stack. */
export async function startEgressProxy(
  stack: AsyncDisposableStack,
  hostPort: number,
): Promise<number> {
  const policies = createPolicies();
  policies.replace("127.0.0.1", ["allowed.test"]);
  const dial = async () => {
    const socket = connect({ port: hostPort, host: "127.0.0.1", allowHalfOpen: true });
    await once(socket, "connect");
    return socket;
  };
  const server = createWebServer({ policies, dial });
  const port = await listenOnLoopback(server);
  stack.defer(() => server.closeAllConnections());
  stack.defer(() => void server.close());
  return port;
}
