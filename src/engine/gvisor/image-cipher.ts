/**
 * Encryption of a stream in chunks by AES-256-GCM. The nonce of a chunk is its number and whether it
 * is the last one: what was cut, left out, repeated or swapped is found before a byte of it is used.
 * A key is for one stream alone.
 */

import { createCipheriv, createDecipheriv, type KeyObject } from "node:crypto";
import { Transform } from "node:stream";
import { SandboxError } from "../../common/errors.ts";

const CHUNK_BYTES = 1024 * 1024;
const TAG_BYTES = 16;
const NONCE_BYTES = 12;
const LAST_BYTE = 8;

export interface Sealer {
  readonly stream: Transform;
  /** What was encrypted so far. */
  readonly plainBytes: number;
}

/** Encrypts; an empty stream becomes one chunk. */
export function createSealer(key: KeyObject): Sealer {
  let plainBytes = 0;
  const stream = createChunked(CHUNK_BYTES, (chunk, nonce) => {
    plainBytes += chunk.length;
    const cipher = createCipheriv("aes-256-gcm", key, nonce);
    const body = cipher.update(chunk);
    cipher.final();
    return [body, cipher.getAuthTag()];
  });
  return {
    stream,
    get plainBytes() {
      return plainBytes;
    },
  };
}

/** Decrypts; it fails where a chunk is not the one that was written there. */
export function createOpener(key: KeyObject): Transform {
  return createChunked(CHUNK_BYTES + TAG_BYTES, (chunk, nonce) => {
    const end = chunk.length - TAG_BYTES;
    if (end < 0) throw damaged();
    const decipher = createDecipheriv("aes-256-gcm", key, nonce, { authTagLength: TAG_BYTES });
    decipher.setAuthTag(chunk.subarray(end));
    const body = decipher.update(chunk.subarray(0, end));
    try {
      decipher.final();
    } catch (error) {
      throw damaged(error);
    }
    return [body];
  });
}

function damaged(cause?: unknown): SandboxError {
  return new SandboxError("internal", "an encrypted image does not open", { cause });
}

type Work = (chunk: Buffer, nonce: Buffer) => readonly Buffer[];

/** Calls `work` with chunks of `size` bytes; the last one, which may be shorter, is marked. */
function createChunked(size: number, work: Work): Transform {
  const parts: Buffer[] = [];
  let waiting = 0;
  let number = 0n;

  function take(count: number): Buffer {
    const all = Buffer.concat(parts);
    parts.length = 0;
    waiting = all.length - count;
    if (waiting > 0) parts.push(all.subarray(count));
    return all.subarray(0, count);
  }

  function pass(stream: Transform, chunk: Buffer, isLast: boolean): void {
    const nonce = Buffer.alloc(NONCE_BYTES);
    nonce.writeBigUInt64BE(number);
    nonce[LAST_BYTE] = isLast ? 1 : 0;
    number += 1n;
    for (const piece of work(chunk, nonce)) stream.push(piece);
  }

  return new Transform({
    readableHighWaterMark: size,
    writableHighWaterMark: size,
    transform(data: Buffer, _encoding, done) {
      parts.push(data);
      waiting += data.length;
      try {
        // One that is followed by nothing is the last one.
        while (waiting > size) pass(this, take(size), false);
        done();
      } catch (error) {
        done(error instanceof Error ? error : damaged(error));
      }
    },
    flush(done) {
      try {
        pass(this, take(waiting), true);
        done();
      } catch (error) {
        done(error instanceof Error ? error : damaged(error));
      }
    },
  });
}
