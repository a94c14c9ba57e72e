/** What kind of content a file holds: by its name, else by its first bytes. */

import { posix } from "node:path";

const TYPES: Readonly<Record<string, string>> = {
  ".avif": "image/avif",
  ".css": "text/css; charset=utf-8",
  ".csv": "text/csv; charset=utf-8",
  ".gif": "image/gif",
  ".gz": "application/gzip",
  ".htm": "text/html; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".ico": "image/vnd.microsoft.icon",
  ".jpeg": "image/jpeg",
  ".jpg": "image/jpeg",
  ".js": "text/javascript; charset=utf-8",
  ".json": "application/json",
  ".md": "text/markdown; charset=utf-8",
  ".mjs": "text/javascript; charset=utf-8",
  ".mp3": "audio/mpeg",
  ".mp4": "video/mp4",
  ".pdf": "application/pdf",
  ".png": "image/png",
  ".svg": "image/svg+xml",
  ".tar": "application/x-tar",
  ".txt": "text/plain; charset=utf-8",
  ".wasm": "application/wasm",
  ".webp": "image/webp",
  ".xml": "text/xml; charset=utf-8",
  ".zip": "application/zip",
};

export const UNKNOWN_TYPE = "application/octet-stream";
const TEXT_TYPE = "text/plain; charset=utf-8";

/** The type that the extension of a path stands for; undefined for one that is not listed. */
export function typeByName(path: string): string | undefined {
  return TYPES[posix.extname(path).toLowerCase()];
}

/** Control characters that no text has; tab, line ends, form feed and escape may be in one. */
// oxlint-disable-next-line no-control-regex -- control characters are what is looked for
const BINARY_PATTERN = /[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]/;

/** Text or not, from the beginning of the content; no content counts as text. */
export function typeByContent(start: Uint8Array): string {
  return BINARY_PATTERN.test(Buffer.from(start).toString("latin1")) ? UNKNOWN_TYPE : TEXT_TYPE;
}
