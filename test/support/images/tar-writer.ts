/** Writes archives in every dialect of tar, and ones that are wrong in one way. */

const BLOCK = 512;
const NUL = "\0";

export interface TarItem {
  /** Each byte as one character. */
  readonly path: string;
  /** The letter of the type; default `0`, a file. */
  readonly type?: string;
  readonly data?: Buffer | string;
  readonly link?: string;
  readonly mode?: number;
  readonly uid?: number;
  readonly gid?: number;
  readonly mtime?: number;
  readonly prefix?: string;
  /** `ustar` unless it says `gnu` or `v7`. */
  readonly form?: "ustar" | "gnu" | "v7";
  /** Records of pax before it. */
  readonly pax?: readonly (readonly [key: string, value: string])[];
  /** In the place of what the header would say. */
  readonly size?: number | Buffer;
  readonly checksum?: string;
  /** Bytes put into the header, by their place. */
  readonly patch?: readonly (readonly [at: number, bytes: Buffer | string])[];
}

/** One entry with its padding, and the header of its records before it. */
export function tarEntry(item: TarItem): Buffer {
  const { pax, ...plain } = item;
  const records = pax === undefined ? [] : [paxEntry(pax)];
  const data = Buffer.from(plain.data ?? "");
  return Buffer.concat([...records, tarHeader(plain), padded(data)]);
}

export function paxEntry(records: readonly (readonly [string, string])[], type = "x"): Buffer {
  const data = Buffer.concat(records.map(([key, value]) => paxRecord(key, value)));
  return tarEntry({ path: "././@PaxHeader", type, data });
}

function paxRecord(key: string, value: string): Buffer {
  const body = Buffer.from(` ${key}=${value}\n`, "latin1");
  let length = body.length + 1;
  while (String(length).length + body.length !== length) length += 1;
  return Buffer.concat([Buffer.from(String(length)), body]);
}

/** A name that has no place in a header, in the form of GNU. */
export function gnuLongName(name: string, type: "L" | "K" = "L"): Buffer {
  const data = Buffer.from(`${name}\0`, "latin1");
  return tarEntry({ path: "././@LongLink", type, data, form: "gnu" });
}

export function tarHeader(item: TarItem): Buffer {
  const header = Buffer.alloc(BLOCK);
  const { path, type = "0", link = "", mode = 0o644, uid = 0, gid = 0, mtime = 0 } = item;
  header.write(path.slice(0, 100), 0, "latin1");
  octal(header, 100, { size: 8, value: mode });
  octal(header, 108, { size: 8, value: uid });
  octal(header, 116, { size: 8, value: gid });
  const size = item.size ?? Buffer.from(item.data ?? "").length;
  if (typeof size === "number") octal(header, 124, { size: 12, value: size });
  else size.copy(header, 124);
  octal(header, 136, { size: 12, value: mtime });
  header.write(type, 156, "latin1");
  header.write(link.slice(0, 100), 157, "latin1");
  const { form = "ustar" } = item;
  if (form !== "v7") header.write(form === "gnu" ? "ustar  \0" : "ustar\x0000", 257, "latin1");
  if (item.prefix !== undefined) header.write(item.prefix, 345, "latin1");
  for (const [at, bytes] of item.patch ?? []) Buffer.from(bytes).copy(header, at);
  header.write("        ", 148, "latin1");
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(item.checksum ?? `${sum.toString(8).padStart(6, "0")}${NUL} `, 148, "latin1");
  return header;
}

function octal(
  header: Buffer,
  at: number,
  { size, value }: { readonly size: number; readonly value: number },
): void {
  header.write(
    value
      .toString(8)
      .padStart(size - 1, "0")
      .slice(-(size - 1)),
    at,
    "latin1",
  );
}

function padded(data: Buffer): Buffer {
  return Buffer.concat([data, Buffer.alloc((BLOCK - (data.length % BLOCK)) % BLOCK)]);
}

export const TAR_END: Buffer = Buffer.alloc(2 * BLOCK);

/** A whole archive. */
export function tar(...items: readonly (TarItem | Buffer)[]): Buffer {
  const parts = items.map((item) => (Buffer.isBuffer(item) ? item : tarEntry(item)));
  return Buffer.concat([...parts, TAR_END]);
}
