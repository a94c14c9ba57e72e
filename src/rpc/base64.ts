/**
 * The standard's own base64 methods, which this version of Node does not have yet, done by Buffer.
 * The protobuf library looks for them and decodes 9 times slower without (docs/adr/0024), and all
 * output of a process is base64 to clients that speak JSON. The build puts these functions where the
 * library names the methods (scripts/build.ts), so nothing of the platform is changed.
 */

interface EncodeOptions {
  readonly alphabet?: "base64" | "base64url";
  readonly omitPadding?: boolean;
}

/** The methods by the one way in which the library calls them, with the array first. */
interface Method<Argument, Result> {
  call(bytes: Uint8Array, argument?: Argument): Result;
}

/** The bytes as base64; standard alphabet and padding unless the options say otherwise. */
export const toBase64: Method<EncodeOptions, string> = {
  call(bytes, { alphabet = "base64", omitPadding = false } = {}) {
    const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString(alphabet);
    // Buffer pads one of its alphabets and not the other.
    if (alphabet === "base64") return omitPadding ? text.replace(/=+$/, "") : text;
    return omitPadding ? text : text.padEnd(4 * Math.ceil(text.length / 4), "=");
  },
};

/**
 * Writes what padded base64 stands for into an array of the size that such a text has.
 * @throws SyntaxError for any other text, which the library then decodes by itself.
 */
export const setFromBase64: Method<string, { readonly read: number; readonly written: number }> = {
  call(bytes, text = "") {
    const target = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    // Buffer skips what is no base64, and has less to write then.
    const written = text.length % 4 === 0 ? target.write(text, "base64") : -1;
    if (written !== bytes.length) throw new SyntaxError("invalid base64");
    return { read: text.length, written };
  },
};
