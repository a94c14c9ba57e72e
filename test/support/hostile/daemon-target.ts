/** A daemon as a target of hostile bytes, and figures of its process. */

import type { TestDaemon } from "../daemon/envd.ts";
import { deliver, type FuzzTarget } from "./fuzz.ts";

/** Finds the daemon's process by what it reads about itself; `token` where it is secured. */
export async function toTarget(daemon: TestDaemon, token = ""): Promise<FuzzTarget> {
  const headers = { "x-access-token": token };
  const { text } = await daemon.http("/files?path=/proc/self/status", { headers });
  return {
    pid: Number(/^Pid:\s+(\d+)$/m.exec(text)?.[1]),
    send: async (input) => deliver(daemon.publicSocket, input),
    async checkHealth() {
      const reply = await daemon.http("/filesystem.Filesystem/Stat", {
        method: "POST",
        headers: {
          ...headers,
          "content-type": "application/json",
          "connect-protocol-version": "1",
        },
        body: '{"path":"/"}',
      });
      if (reply.status !== 200) throw new Error(`Stat of / answered ${reply.status}`);
    },
  };
}
