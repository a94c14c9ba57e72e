/**
 * The standard's own base64 methods, which this version of Node does not have yet, done by Buffer.
 * The RPC library looks for them when it is loaded and is many times slower without, and all
 * output of a process is base64 to clients that speak JSON. So this is imported before it.
 */

interface EncodeOptions {
  readonly alphabet?: "base64" | "base64url";
  readonly omitPadding?: boolean;
}

const WELL_FORMED = /^[A-Za-z0-9+/]*={0,2}$/;

/** The bytes as base64; standard alphabet and padding unless the options say otherwise. */
function encodeBase64(bytes: Uint8Array, options: EncodeOptions = {}): string {
  const { alphabet = "base64", omitPadding = false } = options;
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");
  const padded = alphabet === "base64" ? text : text.replaceAll("+", "-").replaceAll("/", "_");
  return omitPadding ? padded.replace(/=+$/, "") : padded;
}

/**
 * Writes what padded base64 in the standard alphabet stands for into an array that has room for it.
 * @throws SyntaxError for any other text, which the library then decodes by itself.
 */
function decodeBase64Into(
  target: Uint8Array,
  text: string,
): { readonly read: number; readonly written: number } {
  if (text.length % 4 !== 0 || !WELL_FORMED.test(text)) throw new SyntaxError("invalid base64");
  const written = Buffer.from(target.buffer, target.byteOffset, target.byteLength).write(
    text,
    "base64",
  );
  return { read: text.length, written };
}

function define(name: string, value: (this: Uint8Array, ...args: never[]) => unknown): void {
  if (name in Uint8Array.prototype) return;
  // oxlint-disable-next-line no-extend-native -- the very methods that the standard puts there
  Object.defineProperty(Uint8Array.prototype, name, { value, configurable: true, writable: true });
}

define("toBase64", function toBase64(this: Uint8Array, options?: EncodeOptions) {
  return encodeBase64(this, options);
});
define("setFromBase64", function setFromBase64(this: Uint8Array, text: string) {
  return decodeBase64Into(this, text);
});
