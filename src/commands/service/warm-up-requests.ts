/**
 * What a new daemon answers before its compiled code is written: the first calls of every sandbox,
 * which are its identity, a process in either codec, a file and a folder.
 */

import type { WarmUpRequest } from "../../engine/daemon/compile-cache.ts";
import { encodeEnvelope } from "../../rpc/envelope.ts";

const AUTHORIZATION = `Basic ${Buffer.from("root:").toString("base64")}`;
/** StartRequest { process { cmd: "true" } }; pinned by test/unit/commands. */
const START_TRUE = Buffer.from("\x0a\x06\x0a\x04true", "latin1");

/** The requests for a daemon that may write to this folder. */
export function warmUpRequests(folder: string): readonly WarmUpRequest[] {
  const path = `${folder}/file`;
  const file = { socket: "public", path: `/files?path=${encodeURIComponent(path)}` } as const;
  const start = { process: { cmd: "sh", args: ["-c", "echo"] } };
  return [
    toControl("/init", JSON.stringify({ defaultUser: "root", envVars: { NAME: "value" } })),
    toControl("/rest"),
    toService("process.Process/Start", "connect+proto", encodeEnvelope(START_TRUE)),
    toService("process.Process/Start", "connect+json", encodeEnvelope(JSON.stringify(start))),
    {
      ...file,
      method: "POST",
      headers: { "content-type": "application/octet-stream" },
      body: "text",
    },
    { ...file, method: "GET" },
    toService("filesystem.Filesystem/ListDir", "json", JSON.stringify({ path: folder })),
  ];
}

function toControl(path: string, body?: string): WarmUpRequest {
  return { socket: "control", method: "POST", path, ...(body !== undefined && { body }) };
}

function toService(method: string, type: string, body: string | Buffer): WarmUpRequest {
  const headers = {
    "connect-protocol-version": "1",
    "content-type": `application/${type}`,
    authorization: AUTHORIZATION,
  };
  return { socket: "public", method: "POST", path: `/${method}`, headers, body };
}
