/**
 * Pictures by their own bytes. A provider refuses a whole conversation for one image that is not
 * what it claims to be, so neither a name nor a declared type is believed.
 */

/**
 * Of all images of a reply. Providers refuse larger ones: 5 MB of base64, sides of 8,000 pixels. The
 * official Python client refuses an event of more than 1 MiB on HTTP, with the text of the reply.
 */
const MAX_IMAGE_BASE64 = { stdio: 5_000_000, http: 800_000 };
export const MAX_IMAGE_BYTES = {
  stdio: (MAX_IMAGE_BASE64.stdio / 4) * 3,
  http: (MAX_IMAGE_BASE64.http / 4) * 3,
};
export const MAX_IMAGE_SIDE = 8_000;

export type ImageType = "image/png" | "image/jpeg" | "image/gif" | "image/webp";

export interface ImageFacts {
  readonly mimeType: ImageType;
  readonly width: number;
  readonly height: number;
}

/** The first bytes of each type, one character for each byte; `?` is any byte. */
const SIGNATURES = [
  { mimeType: "image/png", bytes: "\u0089PNG\r\n\u001a\n" },
  { mimeType: "image/jpeg", bytes: "\u00ff\u00d8\u00ff" },
  { mimeType: "image/gif", bytes: "GIF87a" },
  { mimeType: "image/gif", bytes: "GIF89a" },
  { mimeType: "image/webp", bytes: "RIFF????WEBP" },
] as const satisfies readonly { readonly mimeType: ImageType; readonly bytes: string }[];

const ANY_BYTE = "?".charCodeAt(0);

/** The type that the first bytes claim; undefined for what is no picture. */
export function imageType(bytes: Buffer): ImageType | undefined {
  return SIGNATURES.find(({ bytes: signature }) =>
    Buffer.from(signature, "latin1").every(
      (byte, index) => byte === ANY_BYTE || bytes[index] === byte,
    ),
  )?.mimeType;
}

/** The type and size of a picture; undefined when its header is broken or not whole. */
export function readImage(bytes: Buffer): ImageFacts | undefined {
  const mimeType = imageType(bytes);
  if (mimeType === undefined) return undefined;
  const size = SIZES[mimeType](bytes);
  if (size === undefined || size.width === 0 || size.height === 0) return undefined;
  return { mimeType, ...size };
}

interface Size {
  readonly width: number;
  readonly height: number;
}

const SIZES = {
  "image/png": pngSize,
  "image/jpeg": jpegSize,
  "image/gif": gifSize,
  "image/webp": webpSize,
} as const satisfies Record<ImageType, (bytes: Buffer) => Size | undefined>;

const PNG_HEADER_BYTES = 33;

function pngSize(bytes: Buffer): Size | undefined {
  if (bytes.length < PNG_HEADER_BYTES || bytes.toString("latin1", 12, 16) !== "IHDR")
    return undefined;
  if (bytes.readUInt32BE(8) !== 13) return undefined;
  return { width: bytes.readUInt32BE(16), height: bytes.readUInt32BE(20) };
}

const GIF_HEADER_BYTES = 13;

function gifSize(bytes: Buffer): Size | undefined {
  if (bytes.length <= GIF_HEADER_BYTES) return undefined;
  const flags = bytes[10] ?? 0;
  const tableBytes = flags >= 0x80 ? 3 * 2 ** ((flags % 8) + 1) : 0;
  const first = bytes[GIF_HEADER_BYTES + tableBytes];
  // An extension or a picture; a text that begins with the signature has neither.
  if (first !== 0x21 && first !== 0x2c) return undefined;
  return { width: bytes.readUInt16LE(6), height: bytes.readUInt16LE(8) };
}

/** The frame headers of JPEG; C4, C8 and CC among them are tables and extensions. */
function isFrame(marker: number): boolean {
  return marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker);
}

/** Markers without a length: fill bytes are passed one by one, restarts and TEM have no payload. */
export function isBare(marker: number): boolean {
  return marker === 0x01 || (marker >= 0xd0 && marker <= 0xd7);
}

/** Walks the segments up to the frame header, each of which is at least four bytes further. */
function jpegSize(bytes: Buffer): Size | undefined {
  let at = 2;
  while (at + 9 <= bytes.length) {
    if (bytes[at] !== 0xff) return undefined;
    const marker = bytes[at + 1] ?? 0;
    if (marker === 0xff) {
      at += 1;
    } else if (isBare(marker)) {
      at += 2;
    } else if (isFrame(marker)) {
      return { height: bytes.readUInt16BE(at + 5), width: bytes.readUInt16BE(at + 7) };
    } else if (marker === 0xda || marker === 0xd9) {
      // The picture or its end comes before a frame header.
      return undefined;
    } else {
      at += 2 + bytes.readUInt16BE(at + 2);
    }
  }
  return undefined;
}

const WEBP_HEADER_BYTES = 30;
const VP8_START = 0x2a019d;
const VP8L_START = 0x2f;

function webpSize(bytes: Buffer): Size | undefined {
  if (bytes.length < WEBP_HEADER_BYTES) return undefined;
  switch (bytes.toString("latin1", 12, 16)) {
    case "VP8 ":
      if (bytes.readUIntLE(23, 3) !== VP8_START) return undefined;
      return {
        width: bytes.readUInt16LE(26) % 0x4000,
        height: bytes.readUInt16LE(28) % 0x4000,
      };
    case "VP8L": {
      if (bytes[20] !== VP8L_START) return undefined;
      const bits = bytes.readUInt32LE(21);
      return { width: (bits % 0x4000) + 1, height: (Math.floor(bits / 0x4000) % 0x4000) + 1 };
    }
    case "VP8X":
      return { width: bytes.readUIntLE(24, 3) + 1, height: bytes.readUIntLE(27, 3) + 1 };
    default:
      return undefined;
  }
}
