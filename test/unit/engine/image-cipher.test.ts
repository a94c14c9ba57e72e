/** Encrypted streams: what was changed, cut, left out, repeated or exchanged is never read. */

import { createSecretKey, randomBytes } from "node:crypto";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { expect, test } from "vitest";
import { createOpener, createSealer } from "../../../src/engine/gvisor/image-cipher.ts";

const CHUNK = 1024 * 1024;
const SEALED_CHUNK = CHUNK + 16;
const KEY = createSecretKey(randomBytes(32));

/** In pieces of a size that divides no chunk. */
function streamOf(bytes: Buffer, pieceBytes = 65_537): Readable {
  const count = Math.ceil(bytes.length / pieceBytes);
  const pieces = Array.from({ length: count }, (_, index) =>
    bytes.subarray(index * pieceBytes, (index + 1) * pieceBytes),
  );
  return Readable.from(pieces);
}

async function seal(bytes: Buffer, key = KEY): Promise<Buffer> {
  const { stream } = createSealer(key);
  return buffer(streamOf(bytes).pipe(stream));
}

async function open(bytes: Buffer, key = KEY): Promise<Buffer> {
  return buffer(streamOf(bytes, 300_001).pipe(createOpener(key)));
}

test.for([0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK])(
  "%i bytes are what they were",
  async (size) => {
    const plain = randomBytes(size);
    const sealer = createSealer(KEY);
    const sealed = await buffer(streamOf(plain).pipe(sealer.stream));
    expect(sealer.plainBytes).toBe(size);
    expect(sealed.length).toBe(size + 16 * Math.max(1, Math.ceil(size / CHUNK)));
    expect((await open(sealed)).equals(plain)).toBe(true);
  },
);

const DAMAGES: Readonly<Record<string, (sealed: Buffer) => Buffer>> = {
  "one bit": (sealed) => {
    const changed = Buffer.from(sealed);
    changed[CHUNK >> 1] = (changed[CHUNK >> 1] ?? 0) ^ 1;
    return changed;
  },
  "no last chunk": (sealed) => sealed.subarray(0, 2 * SEALED_CHUNK),
  "a part of the last chunk": (sealed) => sealed.subarray(0, -1),
  "less than a tag": (sealed) => sealed.subarray(0, 5),
  nothing: () => Buffer.alloc(0),
  "a byte more": (sealed) => Buffer.concat([sealed, Buffer.from([0])]),
  "two chunks in another order": (sealed) =>
    Buffer.concat([
      sealed.subarray(SEALED_CHUNK, 2 * SEALED_CHUNK),
      sealed.subarray(0, SEALED_CHUNK),
      sealed.subarray(2 * SEALED_CHUNK),
    ]),
  "a chunk left out": (sealed) => sealed.subarray(SEALED_CHUNK),
  "a chunk twice": (sealed) => Buffer.concat([sealed.subarray(0, SEALED_CHUNK), sealed]),
};

test.for(Object.entries(DAMAGES))("%s → no stream", async ([, damage]) => {
  const sealed = await seal(randomBytes(2 * CHUNK + 100));
  await expect(open(damage(sealed))).rejects.toMatchObject({
    message: "an encrypted image does not open",
  });
});

test("another key opens nothing", async () => {
  const sealed = await seal(Buffer.from("text"));
  await expect(open(sealed, createSecretKey(randomBytes(32)))).rejects.toThrow("does not open");
});
