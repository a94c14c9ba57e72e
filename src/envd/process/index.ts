/** The operations of the process service, by their names on the wire. */

import type { ServiceImpl } from "@connectrpc/connect";
import type { Process } from "../../gen/process/process_pb.ts";
import { closeStdin } from "./close-stdin.ts";
import { connect } from "./connect.ts";
import { list } from "./list.ts";
import { sendInput } from "./send-input.ts";
import { sendSignal } from "./send-signal.ts";
import { start } from "./start.ts";
import { streamInput } from "./stream-input.ts";
import { update } from "./update.ts";

export const processOperations = {
  closeStdin,
  connect,
  list,
  sendInput,
  sendSignal,
  start,
  streamInput,
  update,
} satisfies ServiceImpl<typeof Process>;
