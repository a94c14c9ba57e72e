/** GET /isolation on the host's side: what the kernel says of the separation of this daemon's world. */

import { readFile } from "node:fs/promises";
import { sendJson } from "../../common/http.ts";
import type { ControlExchange } from "./exchange.ts";

export async function isolation({ response }: ControlExchange): Promise<void> {
  const [idMap, status] = await Promise.all([
    readFile("/proc/self/uid_map", "utf8"),
    readFile("/proc/self/status", "utf8"),
  ]);
  const seccomp = /^Seccomp:\s*([0-9]+)/m.exec(status)?.[1];
  const body = { idMap, seccomp: seccomp === undefined ? null : Number(seccomp) };
  sendJson(response, 200, { body });
}
