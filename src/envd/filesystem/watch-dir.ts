/** WatchDir: changes below a folder as a stream, until the client leaves. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { HandlerContext } from "@connectrpc/connect";
import type {
  WatchDirRequest,
  WatchDirResponseSchema,
} from "../../gen/filesystem/filesystem_pb.ts";
import { keepaliveMs } from "../call.ts";
import { openWatch } from "./watch-request.ts";

type Reply = MessageInitShape<typeof WatchDirResponseSchema>;

/** @throws SandboxError not_found, invalid_argument, resource_exhausted, internal */
export async function* watchDir(
  request: WatchDirRequest,
  context: HandlerContext,
): AsyncGenerator<Reply> {
  const watch = await openWatch(request, context);
  // A client that left is not always noticed at the next message: the signal tells at once.
  const close = () => watch[Symbol.dispose]();
  context.signal.addEventListener("abort", close, { once: true });
  try {
    context.signal.throwIfAborted();
    yield { event: { case: "start", value: {} } };
    for (;;) {
      const taken = await watch.events.take(keepaliveMs(context.requestHeader), context.signal);
      if (taken.kind === "end") return;
      yield taken.kind === "idle"
        ? { event: { case: "keepalive", value: {} } }
        : { event: { case: "filesystem", value: taken.value } };
    }
  } finally {
    context.signal.removeEventListener("abort", close);
    close();
  }
}
