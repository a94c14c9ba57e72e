/**
 * File sizes as JSON numbers. The specification calls `size` an integer, protobuf's JSON form of
 * 64 bits is a string; every reader of that form takes a number too, so a number serves both.
 */

import { createAsyncIterable } from "@connectrpc/connect/protocol";
import type { UniversalHandler, UniversalServerResponse } from "@connectrpc/connect/protocol";
import { z } from "../common/schema.ts";

const entrySchema = z.looseObject({ size: z.coerce.number().optional() });
const replySchema = z.looseObject({
  entry: entrySchema.optional(),
  entries: z.array(entrySchema).optional(),
  events: z.array(z.looseObject({ entry: entrySchema.optional() })).optional(),
});

const FILESYSTEM = "filesystem.Filesystem";

/** A reply of the filesystem service with numbers for sizes; any other reply as it is. */
export async function withNumericSizes(
  handler: UniversalHandler,
  reply: UniversalServerResponse,
): Promise<UniversalServerResponse> {
  const isUnary = handler.method.methodKind === "unary";
  const isJson = reply.header?.get("content-type") === "application/json";
  const { body } = reply;
  if (handler.service.typeName !== FILESYSTEM || !isUnary || !isJson || reply.status !== 200) {
    return reply;
  }
  const chunks: Uint8Array[] = [];
  for await (const chunk of body ?? []) chunks.push(chunk);
  const message: unknown = JSON.parse(Buffer.concat(chunks).toString());
  const text = Buffer.from(JSON.stringify(replySchema.parse(message)));
  const header = new Headers(reply.header);
  header.set("content-length", String(text.length));
  return { ...reply, header, body: createAsyncIterable([text]) };
}
