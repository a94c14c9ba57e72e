/** A process stream read to its end, as one record. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Client } from "@connectrpc/connect";
import type {
  Process,
  ProcessEvent,
  StartRequestSchema,
} from "../../../src/gen/process/process_pb.ts";

export interface Collected {
  readonly pid: number;
  readonly kinds: readonly string[];
  readonly stdout: string;
  readonly stderr: string;
  readonly pty: string;
  readonly end: {
    readonly exitCode: number;
    readonly exited: boolean;
    readonly status: string;
    readonly error: string | undefined;
  };
}

/** Reads a stream of Start or Connect; `kinds` are the events in order, neighbours merged. */
export async function collect(
  stream: AsyncIterable<{ readonly event?: ProcessEvent | undefined }>,
): Promise<Collected> {
  const kinds: string[] = [];
  const output = { stdout: "", stderr: "", pty: "" };
  let pid = 0;
  let end: Collected["end"] = { exitCode: 0, exited: false, status: "no end", error: undefined };
  for await (const message of stream) {
    const event = message.event?.event;
    const kind = event?.case ?? "none";
    if (kinds.at(-1) !== kind) kinds.push(kind);
    if (event?.case === "start") pid = event.value.pid;
    if (event?.case === "data" && event.value.output.case !== undefined) {
      const { case: name, value } = event.value.output;
      output[name] += Buffer.from(value).toString();
    }
    if (event?.case === "end") {
      const { exitCode, exited, status, error } = event.value;
      end = { exitCode, exited, status, error };
    }
  }
  return { pid, kinds, ...output, end };
}

/** In a shell that the daemon started: the daemon, the parent of what starts all programs. */
export const DAEMON_PID = "$(cut -d' ' -f4 /proc/$PPID/stat)";

/** Runs a shell script to its end. */
export async function runScript(
  processes: Client<typeof Process>,
  script: string,
  options: Omit<MessageInitShape<typeof StartRequestSchema>, "process" | "$typeName"> = {},
): Promise<Collected> {
  return collect(
    processes.start({ process: { cmd: "/bin/sh", args: ["-c", script] }, ...options }),
  );
}
