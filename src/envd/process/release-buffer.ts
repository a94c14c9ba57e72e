/** Memory of buffers that no code needs any more. */

/** Less is the collector's. */
const MIN_BYTES = 16_384;

/**
 * Frees a buffer at once, which is empty from then on; no code may still read it. The collector
 * would leave many megabytes of them lying, and go through the whole heap for them time and again.
 */
export function releaseBuffer({ buffer, length }: Buffer): void {
  const isWhole = length >= MIN_BYTES && length === buffer.byteLength;
  if (isWhole && buffer instanceof ArrayBuffer) buffer.transfer(0);
}
