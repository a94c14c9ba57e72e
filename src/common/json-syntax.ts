/** The bytes of JSON's syntax (RFC 8259), for code that looks at a text which it does not parse. */

export const QUOTE = 0x22;
export const COMMA = 0x2c;
export const BACKSLASH = 0x5c;
export const OPEN_ARRAY = 0x5b;
export const CLOSE_ARRAY = 0x5d;
export const OPEN_OBJECT = 0x7b;
export const CLOSE_OBJECT = 0x7d;
