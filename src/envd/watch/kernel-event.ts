/** Events of inotify as the kernel writes them: `struct inotify_event` of inotify(7). */

export const EventMask = {
  modify: 0x2,
  attributes: 0x4,
  movedFrom: 0x40,
  movedTo: 0x80,
  create: 0x100,
  delete: 0x200,
  deleteSelf: 0x400,
  moveSelf: 0x800,
  unmount: 0x2000,
  overflow: 0x4000,
  /** The watch has ended; nothing follows from it. */
  ignored: 0x8000,
  isDirectory: 0x40000000,
} as const;

export interface KernelEvent {
  /** The watch descriptor: a directory, whatever its path is by now; -1 for an overflow. */
  readonly wd: number;
  /** Flags of `EventMask`. */
  readonly mask: number;
  /** The same for both halves of a move, else 0. */
  readonly cookie: number;
  /** The entry in the directory, a byte in each character; "" for the directory itself. */
  readonly name: string;
}

const HEAD_BYTES = 16;

/** Parses what one read of an inotify descriptor returned: whole events, least byte first. */
export function parseKernelEvents(bytes: Buffer): KernelEvent[] {
  const events: KernelEvent[] = [];
  for (let offset = 0; offset + HEAD_BYTES <= bytes.length;) {
    const nameEnd = offset + HEAD_BYTES + bytes.readUInt32LE(offset + 12);
    const padded = bytes.toString("latin1", offset + HEAD_BYTES, nameEnd);
    const end = padded.indexOf("\0");
    events.push({
      wd: bytes.readInt32LE(offset),
      mask: bytes.readUInt32LE(offset + 4),
      cookie: bytes.readUInt32LE(offset + 8),
      name: end < 0 ? padded : padded.slice(0, end),
    });
    offset = nameEnd;
  }
  return events;
}
