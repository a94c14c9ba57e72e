/** Where UTF-8 characters end in bytes that were cut anywhere. */

/** Whether a byte continues a UTF-8 character that began before it. */
export function isContinuation(byte: number | undefined): boolean {
  return ((byte ?? 0) & 0xc0) === 0x80;
}

/** The greatest cut at or before `position` that splits no UTF-8 character. */
export function characterCut(bytes: Uint8Array, position: number): number {
  const lowest = Math.max(0, position - 3);
  let cut = position;
  while (cut > lowest && isContinuation(bytes[cut])) cut -= 1;
  // Four continuation bytes in a row are no UTF-8.
  return isContinuation(bytes[cut]) ? position : cut;
}

/** How many bytes at the end belong to a character that is not complete. */
export function incompleteTail(bytes: Uint8Array): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back += 1) {
    const byte = bytes[bytes.length - back];
    if (!isContinuation(byte)) return characterLength(byte ?? 0) > back ? back : 0;
  }
  return 0;
}

function characterLength(firstByte: number): number {
  if (firstByte >= 0xf0) return 4;
  if (firstByte >= 0xe0) return 3;
  return firstByte >= 0xc0 ? 2 : 1;
}
