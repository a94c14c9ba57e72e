/** Tool: reads a part of a file as text, base64 or image. */

import type { Sandbox } from "../../client/envd.ts";
import type { FileSlice } from "../../client/files.ts";
import { SandboxError } from "../../common/errors.ts";
import { z } from "../../common/schema.ts";
import { countUnsafe, escapeUnsafe, quoteName } from "../../common/untrusted-text.ts";
import { cutBefore, formatBytes } from "../../output/text.ts";
import { hinted, pathHints, withHints } from "../error-hints.ts";
import { expiryFact } from "../facts.ts";
import { pathInput, sandboxIdInput, userInput } from "../inputs.ts";
import { imageReply, textReply, type Reply } from "../respond.ts";
import { READ_ONLY, defineTool, type ToolContext } from "../tool.ts";

const DEFAULT_BYTES = 30_000;
const MAX_BYTES = 200_000;
/** Larger images are more than hosts accept. */
const MAX_IMAGE_BYTES = 1_000_000;
const MAX_OFFSET = Number.MAX_SAFE_INTEGER - MAX_IMAGE_BYTES;
const IMAGE_TYPES: ReadonlySet<string> = new Set(["image/png", "image/jpeg", "image/webp"]);

const input = z.strictObject({
  sandbox_id: sandboxIdInput(),
  path: pathInput("File in the sandbox, absolute or relative to the user's home."),
  offset: z.int().min(0).max(MAX_OFFSET).default(0).describe("First byte."),
  limit: z.int().min(1).max(MAX_BYTES).default(DEFAULT_BYTES).describe("Most bytes to read."),
  encoding: z
    .enum(["auto", "text", "base64"])
    .default("auto")
    .describe("auto: text, or an image as such; base64 for other bytes."),
  user: userInput(),
});

type Params = z.output<typeof input>;

export const readFile = defineTool({
  name: "read_file",
  title: "Read a file",
  description:
    "Reads a file of the sandbox: text as it is, png, jpeg and webp as an image, other bytes on " +
    "request as base64. Returns at most limit bytes; the first line contains the size and, if " +
    "there is more, the next_offset to continue with. For a directory use list_directory. To " +
    "search in large files, run grep with run_process instead of reading them whole.",
  toolset: "core",
  input,
  annotations: READ_ONLY,
  async handler(params, context) {
    const sandbox = await context.attach(params.sandbox_id);
    const slice = await read(sandbox, params, context);
    const mimeType = mimeTypeOf(slice);
    if (params.encoding === "auto" && params.offset === 0 && isImage(slice, mimeType)) {
      return readImage({ sandbox, params, context, slice, mimeType });
    }
    if (params.encoding === "base64") return base64Reply(params, slice, context);
    if (isBinary(slice.bytes)) {
      if (params.encoding === "auto") throw binaryError(params, slice, context);
    }
    return contentReply(params, slice, context);
  },
});

async function read(sandbox: Sandbox, params: Params, context: ToolContext): Promise<FileSlice> {
  const { offset, limit, path, user } = params;
  const options = { signal: context.signal, user };
  const reading = sandbox.files.read(path, { offset, limit }, options);
  try {
    return await withHints(reading, pathHints(path, context.suggest));
  } catch (error) {
    if (!(error instanceof SandboxError) || error.code !== "invalid_argument") throw error;
    const entry = await sandbox.filesystem.stat(path, options);
    if (entry.type !== "directory") throw error;
    const hint = context.suggest("list_directory", "Use list_directory.");
    throw hinted(
      new SandboxError(error.code, `${quoteName(path)} is a directory`, { cause: error }),
      hint,
    );
  }
}

function mimeTypeOf(slice: FileSlice): string {
  return slice.contentType.split(";")[0]?.trim().toLowerCase() ?? "";
}

function isImage(slice: FileSlice, mimeType: string): boolean {
  const { sizeBytes } = slice;
  return IMAGE_TYPES.has(mimeType) && sizeBytes !== undefined && sizeBytes <= MAX_IMAGE_BYTES;
}

async function readImage(found: {
  readonly sandbox: Sandbox;
  readonly params: Params;
  readonly context: ToolContext;
  readonly slice: FileSlice;
  readonly mimeType: string;
}): Promise<Reply<never>> {
  const { sandbox, params, context, slice, mimeType } = found;
  const sizeBytes = slice.sizeBytes ?? 0;
  const whole =
    slice.bytes.length >= sizeBytes
      ? slice
      : await sandbox.files.read(params.path, { offset: 0, limit: sizeBytes }, context);
  const facts = [`${sizeBytes} bytes`, quoteName(mimeType), expiryFact(context, params.sandbox_id)];
  return imageReply(facts, { base64: whole.bytes.toString("base64"), mimeType });
}

/** A file with a zero byte is no text; what is not UTF-8 is shown with replacements. */
function isBinary(bytes: Buffer): boolean {
  return bytes.includes(0);
}

function binaryError(params: Params, slice: FileSlice, context: ToolContext): SandboxError {
  const size = slice.sizeBytes === undefined ? "" : `${formatBytes(slice.sizeBytes)}, `;
  const message = `${quoteName(params.path)} is binary (${size}${quoteName(mimeTypeOf(slice) || "unknown type")})`;
  const download = context.suggest("download_url", ", or use download_url");
  const hint = `Repeat with encoding=base64${download}.`;
  return new SandboxError("invalid_argument", message, { hint });
}

function base64Reply(params: Params, slice: FileSlice, context: ToolContext): Reply<never> {
  const facts = [...rangeFacts(params, slice, slice.bytes.length), "base64"];
  const text = slice.bytes.toString("base64");
  return textReply(
    [...facts, expiryFact(context, params.sandbox_id)],
    [{ name: "content", parts: [text] }],
  );
}

function contentReply(params: Params, slice: FileSlice, context: ToolContext): Reply<never> {
  const { bytes } = slice;
  const isCut = (slice.sizeBytes ?? 0) > params.offset + bytes.length;
  // Only a cut end is moved: to the end of a line, or of a character.
  const length = isCut ? cutBefore(Buffer.concat([bytes, FILLER]), bytes.length) : bytes.length;
  const text = bytes.subarray(0, length).toString("utf8");
  const facts = [
    ...rangeFacts(params, slice, length),
    quoteName(mimeTypeOf(slice)),
    escapeFact(text),
    expiryFact(context, params.sandbox_id),
  ];
  return textReply(facts, [{ name: "content", parts: [escapeUnsafe(text)] }]);
}

/** Notes that the shown content differs from the file, for an edit that must match it. */
function escapeFact(text: string): string | undefined {
  const count = countUnsafe(text);
  return count === 0 ? undefined : `${count} invisible characters shown as \\u escapes`;
}

/** Stands for the bytes that follow a cut. */
const FILLER = Buffer.from(" ");

function rangeFacts(params: Params, slice: FileSlice, length: number): string[] {
  const { sizeBytes } = slice;
  const end = params.offset + length;
  const of = sizeBytes === undefined ? "" : ` of ${sizeBytes}`;
  if (length === 0) return [`no bytes at ${params.offset}${of}`];
  const range = `bytes ${params.offset}-${end - 1}${of}`;
  const hasMore = sizeBytes === undefined ? length === params.limit : end < sizeBytes;
  return hasMore ? [range, `next_offset: ${end}`] : [range];
}
