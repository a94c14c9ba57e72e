/** The stream of a process as one reader gets it: start, output, silence, end. */

import type { HandlerContext } from "@connectrpc/connect";
import { keepaliveMs } from "../call.ts";
import type { ProcessEvent } from "./child.ts";
import type { Subscription } from "./fan-out.ts";

/**
 * The events of a subscription, begun by the start event; closes it in the end. Leaving the stream
 * early leaves the process alone.
 */
export async function* follow(
  pid: number,
  subscription: Subscription<ProcessEvent>,
  context: HandlerContext,
): AsyncGenerator<{ event: ProcessEvent }> {
  // A client that left may never ask for another message: the signal tells at once.
  const close = () => subscription.close();
  context.signal.addEventListener("abort", close, { once: true });
  const silenceMs = keepaliveMs(context.requestHeader);
  try {
    yield { event: { event: { case: "start", value: { pid } } } };
    for (;;) {
      const taken = await subscription.events.take(silenceMs, context.signal);
      if (taken.kind === "end") return;
      const idle: ProcessEvent = { event: { case: "keepalive", value: {} } };
      yield { event: taken.kind === "idle" ? idle : taken.value };
    }
  } finally {
    context.signal.removeEventListener("abort", close);
    close();
  }
}
