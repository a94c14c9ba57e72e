/** Tool: reads a part of a file as text, base64 or image. */

import type { Sandbox } from "../../client/envd.ts";
import type { FileSlice } from "../../client/files.ts";
import { incompleteTail } from "../../common/characters.ts";
import { hasErrorCode, SandboxError } from "../../common/errors.ts";
import { z } from "../../common/schema.ts";
import { countUnsafe, escapeUnsafe, quoteName } from "../../common/untrusted-text.ts";
import { smallerBudget } from "../../output/shown-size.ts";
import { cutBefore, formatBytes } from "../../output/text.ts";
import {
  decodePart,
  encodingFact,
  guessEncoding,
  readLines,
  type Part,
  type ShownEncoding,
} from "../files/file-text.ts";
import { pathInput, sandboxIdInput, userInput } from "../inputs.ts";
import { imageType, MAX_IMAGE_BYTES, MAX_IMAGE_SIDE, readImage } from "../pictures/image.ts";
import { isWholeImage } from "../pictures/whole-image.ts";
import { hinted, pathHints, withHints } from "../replies/error-hints.ts";
import { expiryFact } from "../replies/facts.ts";
import { imageReply, textReply, type Reply } from "../replies/respond.ts";
import { READ_ONLY, defineTool, type ToolContext } from "../tool.ts";

const DEFAULT_BYTES = 30_000;
const MAX_BYTES = 200_000;
const MAX_OFFSET = Number.MAX_SAFE_INTEGER - MAX_IMAGE_BYTES.stdio;

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
    "Reads a file of the sandbox: text as it is, png, jpeg, gif and webp as an image, other bytes on " +
    "request as base64. Returns at most limit bytes; the first line contains the size and, if " +
    "there is more, the next_offset to continue with. For a directory use list_directory. To " +
    "search in large files, use search_files instead of reading them whole.",
  toolset: "core",
  input,
  annotations: READ_ONLY,
  async handler(params, context) {
    const sandbox = await context.attach(params.sandbox_id);
    const slice = await read(sandbox, params, context);
    if (params.encoding === "base64") return base64Reply(params, slice, context);
    const isWhole = params.encoding === "auto" && params.offset === 0;
    const picture = isWhole ? await readPicture({ sandbox, params, context, slice }) : undefined;
    if (picture !== undefined && "text" in picture) return picture;
    const part = toPart(params, slice);
    const encoding = guessEncoding(part);
    if (encoding !== undefined) return textOf({ params, context, slice, part, encoding });
    if (params.encoding === "auto") throw binaryError({ params, context, slice, picture });
    return textOf({ params, context, slice, part, encoding: { kind: "binary" } });
  },
});

async function read(sandbox: Sandbox, params: Params, context: ToolContext): Promise<FileSlice> {
  const { offset, limit, path, user } = params;
  const options = { signal: context.signal, user };
  const reading = sandbox.files.read(path, { offset, limit }, options);
  try {
    return await withHints(reading, pathHints(path, context.suggest));
  } catch (error) {
    if (!hasErrorCode(error, "invalid_argument")) throw error;
    const entry = await sandbox.filesystem.stat(path, options);
    if (entry.type !== "directory") {
      throw hinted(error, context.suggest("run_process", "Read a device with run_process."));
    }
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

interface Found {
  readonly params: Params;
  readonly context: ToolContext;
  readonly slice: FileSlice;
}

/** Why bytes that begin as a picture are not shown as one. */
interface Unshown {
  readonly reason: string;
  /** Whether a smaller copy would be shown. */
  readonly isTooLarge: boolean;
}

/** The reply for a picture that every provider takes; undefined for bytes that are something else. */
async function readPicture(
  found: Found & { readonly sandbox: Sandbox },
): Promise<Reply<never> | Unshown | undefined> {
  const { sandbox, params, context, slice } = found;
  const type = imageType(slice.bytes);
  if (type === undefined) return undefined;
  const { sizeBytes } = slice;
  const limit = context.maxImageBytes;
  if (sizeBytes === undefined) return unshown(`${type} of unknown size`);
  if (sizeBytes > limit) {
    return tooLarge(`${type} of more than ${formatBytes(limit)}, too large to be shown`);
  }
  const options = { signal: context.signal, user: params.user };
  const range = { offset: 0, limit };
  const whole =
    slice.bytes.length >= sizeBytes ? slice : await sandbox.files.read(params.path, range, options);
  const image = readImage(whole.bytes);
  if (image === undefined) return unshown(`begins as ${type}, but its header is broken`);
  const { width, height, mimeType } = image;
  if (Math.max(width, height) > MAX_IMAGE_SIDE) {
    const sides = `${mimeType} of ${width} x ${height} pixels`;
    return tooLarge(`${sides}; only sides up to ${MAX_IMAGE_SIDE} are shown`);
  }
  if (!(await isWholeImage(whole.bytes, mimeType))) {
    return unshown(`begins as ${type}, but a part of it is missing or broken`);
  }
  const facts = [
    `${whole.bytes.length} bytes`,
    mimeType,
    `${width} x ${height} pixels`,
    expiryFact(context, params.sandbox_id),
  ];
  return imageReply(facts, { base64: whole.bytes.toString("base64"), mimeType });
}

function unshown(reason: string): Unshown {
  return { reason, isTooLarge: false };
}

function tooLarge(reason: string): Unshown {
  return { reason, isTooLarge: true };
}

function binaryError(found: Found & { readonly picture: Unshown | undefined }): SandboxError {
  const { params, context, slice, picture } = found;
  const size = slice.sizeBytes === undefined ? "" : `${formatBytes(slice.sizeBytes)}, `;
  const type = picture?.reason ?? quoteName(mimeTypeOf(slice) || "unknown type");
  const message = `${quoteName(params.path)} is binary (${size}${type})`;
  const download = context.suggest("download_url", ", or use download_url");
  const smaller = context.suggest("run_process", "Make a smaller copy with run_process");
  const isSmallerBetter = picture?.isTooLarge === true && smaller !== "";
  const hint = `${isSmallerBetter ? smaller : "Repeat with encoding=base64"}${download}.`;
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

/** What is shown of a slice: the end of a cut one is moved to the end of a line or a character. */
function toPart(params: Params, slice: FileSlice): Part {
  const { offset } = params;
  const isCut = (slice.sizeBytes ?? 0) > offset + slice.bytes.length;
  return { bytes: slice.bytes, offset, isCut };
}

function shownLength({ bytes, offset, isCut }: Part, encoding: ShownEncoding): number {
  if (!isCut) return bytes.length;
  if (encoding.kind === "utf-16le" || encoding.kind === "utf-16be") {
    const whole = bytes.length - ((offset + bytes.length) % 2);
    const high = bytes[whole - (encoding.kind === "utf-16le" ? 1 : 2)] ?? 0;
    // The first half of a character of four bytes; alone it is shown, so that every page goes on.
    return Math.max(1, (high & 0xfc) === 0xd8 && whole > 2 ? whole - 2 : whole);
  }
  const open = encoding.kind === "windows-1252" ? 0 : incompleteTail(bytes);
  const whole = bytes.length - open || bytes.length;
  return cutBefore(Buffer.concat([bytes, FILLER]), whole);
}

function textOf(
  found: Found & { readonly part: Part; readonly encoding: ShownEncoding },
): Reply<never> {
  const { params, context, slice, part, encoding } = found;
  const { offset } = part;
  const length = shownLength(part, encoding);
  const shown = { ...part, bytes: part.bytes.subarray(0, length) };
  const lines = readLines(decodePart(shown, encoding));
  const content = escapeUnsafe(lines.text);
  const smaller = smallerBudget(length, Buffer.byteLength(content, "utf8"), params.limit);
  if (smaller !== undefined) {
    const cut = { ...part, bytes: part.bytes.subarray(0, smaller), isCut: true };
    return textOf({ ...found, part: cut, encoding: guessEncoding(cut) ?? encoding });
  }
  const facts = [
    ...rangeFacts(params, slice, length),
    typeFact(slice, offset === 0 && encoding.kind !== "binary"),
    encodingFact(encoding),
    lines.fact,
    escapeFact(lines.text),
    expiryFact(context, params.sandbox_id),
  ];
  return textReply(facts, [{ name: "content", parts: [content] }]);
}

/** A type that is only the name's word is told as such for a file whose beginning is text. */
function typeFact(slice: FileSlice, beginsAsText: boolean): string | undefined {
  const mimeType = mimeTypeOf(slice);
  // A range beyond the end has none.
  if (mimeType === "") return undefined;
  return beginsAsText && mimeType.startsWith("image/") && mimeType !== "image/svg+xml"
    ? `text, though its name says ${quoteName(mimeType)}`
    : quoteName(mimeType);
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
  const isCut = slice.bytes.length === params.limit || length < slice.bytes.length;
  const hasMore = sizeBytes === undefined ? isCut : end < sizeBytes;
  return hasMore ? [range, `next_offset: ${end}`] : [range];
}
