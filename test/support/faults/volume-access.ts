/** The content of a volume of a service in a process of its own, by the token of the volume. */

import { z } from "../../../src/common/schema.ts";
import type { FaultHome } from "./fault-home.ts";

export const volumeSchema = z.object({ volumeID: z.string(), token: z.string() });

export type VolumeAccess = z.infer<typeof volumeSchema>;

export interface FileRequest {
  readonly path: string;
  /** Written; undefined reads the file. */
  readonly body?: string | Buffer;
}

/** Reads a file, or writes it with the folders above it. */
export async function askVolume(
  home: Pick<FaultHome, "client">,
  { volumeID, token }: VolumeAccess,
  { path, body }: FileRequest,
): Promise<{ readonly status: number; readonly text: string }> {
  const query = new URLSearchParams({ path, ...(body !== undefined && { force: "true" }) });
  const url = `${home.client().apiUrl}/volumecontent/${volumeID}/file?${query.toString()}`;
  const reply = await fetch(url, {
    headers: { authorization: `Bearer ${token}` },
    ...(body !== undefined && { method: "PUT", body }),
  });
  return { status: reply.status, text: await reply.text() };
}
