/**
 * The address of an embedded service for programs of this machine, opened at the first need: ports
 * of sandboxes and signed file links, and nothing else.
 */

import type { IncomingMessage, ServerResponse } from "node:http";
import type { PublicAddress } from "../../client/service.ts";
import { SandboxError } from "../../common/errors.ts";
import { sendJson } from "../../common/http.ts";
import type { Logger } from "../../common/log.ts";
import { startListener, type Handlers, type Listener } from "../../listener/listener.ts";
import { retryHeaders } from "../../wire/retry.ts";

const HOST = "127.0.0.1";
/** Browsers and name services answer every name below it with loopback. */
const DOMAIN = "localhost";

export interface LoopbackGateway extends AsyncDisposable {
  /**
   * The address; all callers get the same one.
   * @throws SandboxError unavailable when no port can be opened or the service is ending; another
   * call tries again.
   */
  open(): Promise<PublicAddress>;
}

/** No port is open before the first call. */
export function createLoopbackGateway(handlers: Handlers, log: Logger): LoopbackGateway {
  let opening: Promise<Listener> | undefined;
  let isOver = false;

  async function start(): Promise<Listener> {
    const listener = await startListener({
      addresses: [{ kind: "tcp", host: HOST, port: 0 }],
      domain: DOMAIN,
      handlers: withoutControl(handlers),
      log,
    });
    log.info({ op: "gateway.open", port: listener.ports[0] }, "loopback gateway open");
    return listener;
  }

  return {
    async open() {
      if (isOver) throw new SandboxError("unavailable", "the service is ending");
      opening ??= start();
      try {
        const [port] = (await opening).ports;
        return { publicUrl: `http://${HOST}:${port}`, domain: DOMAIN };
      } catch (error) {
        opening = undefined;
        throw error;
      }
    },
    async [Symbol.asyncDispose]() {
      isOver = true;
      // Who asked for it was told of the fault.
      const listener = await opening?.catch(() => undefined);
      await listener?.[Symbol.asyncDispose]();
    },
  };
}

/** Keys of the control API and of MCP are of no use here. */
function withoutControl({ gateway, upgrade }: Handlers): Handlers {
  return { gateway, upgrade, control: refuse, mcp: refuse, isReady: () => true };
}

async function refuse(_request: IncomingMessage, response: ServerResponse): Promise<void> {
  const body = { code: 404, message: "not offered at this address" };
  sendJson(response, 404, { body, headers: retryHeaders(404) });
}
