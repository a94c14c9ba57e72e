/** The smallest contents of their kinds. */

/** A picture of one red pixel. */
export const PNG_BASE64 =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";

/** A sound without a sample: a header alone. */
export const WAV_BASE64 = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

export function textResult(text: string): {
  readonly content: { readonly type: "text"; readonly text: string }[];
} {
  return { content: [{ type: "text", text }] };
}
