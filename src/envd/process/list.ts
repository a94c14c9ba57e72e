/** List: the processes that were started here and have not ended. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { HandlerContext } from "@connectrpc/connect";
import type { ListRequest, ListResponseSchema } from "../../gen/process/process_pb.ts";
import { originOf } from "../call.ts";

export async function list(
  _request: ListRequest,
  context: HandlerContext,
): Promise<MessageInitShape<typeof ListResponseSchema>> {
  const running = originOf(context).daemon.processes.list();
  return {
    processes: running.map(({ pid, config, tag }) => ({
      pid,
      config,
      ...(tag !== undefined && { tag }),
    })),
  };
}
