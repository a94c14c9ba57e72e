/** One run of a sandbox, from start or resume to pause or end, with the connections made in it. */

import type { Socket } from "node:net";
import { anySignal } from "../common/any-signal.ts";
import { SandboxError } from "../common/errors.ts";
import type { Container } from "../engine/engine.ts";
import type { SandboxRecord } from "../store/store.ts";
import { networkSchema } from "../wire/control.ts";
import { ENVD_PORT } from "../wire/headers.ts";
import { MESSAGES } from "../wire/messages.ts";
import { callDaemon, createDaemonWatch, type DaemonWatch } from "./boot/daemon-call.ts";
import { tokensOf, type Secrets } from "./secrets.ts";

/** What the gateway may know of a running sandbox. One object per run: it ends with the run. */
export interface Endpoint {
  readonly sandboxId: string;
  /** Undefined for a sandbox whose daemon is open. */
  readonly accessToken: string | undefined;
  /** Undefined where every port is open. */
  readonly trafficToken: string | undefined;
  /** What services inside see as Host, with `${PORT}` for the port. */
  readonly maskedHost: string | undefined;
  /** Ports on which services speak TLS. */
  readonly httpsPorts: readonly number[];
  /** Ports of services that belong to the template: they are given the token of the daemon. */
  readonly servicePorts: readonly number[];
  /** Fires at pause, kill and death. Every connection made through `dial` is cut then. */
  readonly ended: AbortSignal;
  /** @throws SandboxError unavailable when nothing listens there. */
  dial(port: number, signal: AbortSignal): Promise<Socket>;
  /** For calls that wait for a reply, which comes through the daemon whatever the port is. */
  readonly watch: DaemonWatch;
}

/** What follows from the record of its sandbox. */
export function endpointFacts(record: SandboxRecord, secrets: Secrets) {
  const { maskRequestHost: maskedHost, httpsPorts = [] } = networkSchema.parse(
    record.network ?? {},
  );
  return { sandboxId: record.sandboxId, ...tokensOf(record, secrets), maskedHost, httpsPorts };
}

export interface Run {
  readonly endpoint: Endpoint;
  /** Cuts every connection, without a clean end: clients must see that the stream broke. */
  end(): void;
}

export function beginRun(
  container: Pick<Container, "dial" | "dialPublic" | "dialControl">,
  facts: Omit<Endpoint, "ended" | "dial" | "watch">,
): Run {
  const controller = new AbortController();
  const sockets = new Set<Socket>();
  const watch = createDaemonWatch({
    async ask(signal) {
      const bounded = anySignal([signal, controller.signal]);
      const socket = await container.dialControl(bounded);
      await callDaemon(socket, { method: "GET", path: "/health" }, bounded);
      socket.destroy();
    },
  });

  async function dial(port: number, signal: AbortSignal): Promise<Socket> {
    const bounded = anySignal([signal, controller.signal]);
    // There is no such TCP port: the number stands for the daemon.
    const isDaemon = port === ENVD_PORT;
    const socket = await (isDaemon ? container.dialPublic(bounded) : container.dial(port, bounded));
    if (controller.signal.aborted) {
      socket.destroy();
      throw new SandboxError("unavailable", MESSAGES.sandboxUnreachable);
    }
    sockets.add(socket);
    // The reader gets the fault itself; without a listener, one before the first read would end the service.
    socket.on("error", () => undefined);
    socket.once("close", () => sockets.delete(socket));
    return socket;
  }

  return {
    endpoint: { ...facts, ended: controller.signal, dial, watch },
    end() {
      controller.abort();
      for (const socket of sockets) socket.destroy();
    },
  };
}
