/** The stream of a process as one reader gets it: start, output, silence, end. */

import type { HandlerContext } from "@connectrpc/connect";
import { frameSinkOf, type FrameSink } from "../../rpc/frame-sink.ts";
import { encodeEvent, type ProcessEvent } from "../../rpc/process-events.ts";
import { abortReason, keepaliveMs } from "../call.ts";
import type { Subscription } from "./fan-out.ts";

/**
 * Yields the start event and then sends all others itself; closes the subscription in the end.
 * Leaving the stream early leaves the process alone.
 */
export async function* follow(
  pid: number,
  subscription: Subscription,
  context: HandlerContext,
): AsyncGenerator<{ event: ProcessEvent }> {
  const { signal } = context;
  const sink = frameSinkOf(context);
  // Neither a client that left nor one that reads nothing ever asks for another message.
  const onAbort = () => {
    sink.stop(abortReason(signal));
    subscription.close();
  };
  signal.addEventListener("abort", onAbort, { once: true });
  subscription.onCut((error) => sink.stop(error));
  const silenceMs = keepaliveMs(context.requestHeader);
  const keepalive = () => encodeEvent({ event: { case: "keepalive", value: {} } }, sink.codec);
  try {
    signal.throwIfAborted();
    yield { event: { event: { case: "start", value: { pid } } } };
    for (;;) {
      signal.throwIfAborted();
      const frames = subscription.take();
      if (frames.length > 0) await send(frames, subscription, sink);
      else if (subscription.hasEnded) return;
      else if (!(await subscription.changed(silenceMs))) await sink.write([keepalive()]);
    }
  } finally {
    signal.removeEventListener("abort", onAbort);
    subscription.close();
  }
}

async function send(
  frames: readonly Buffer[],
  subscription: Subscription,
  sink: FrameSink,
): Promise<void> {
  // The last ones go in one piece with the end of the stream, where they are small.
  if (subscription.isDone && sink.finish(frames)) return;
  await sink.write(frames);
  subscription.release(frames);
}
