/** Where a string occurs in a text, in time linear in both. */

interface PlacesOptions {
  readonly most?: number;
  /** Whether a place may begin within the one before it. */
  readonly overlap?: boolean;
}

/**
 * The places, at most `most` and one more. The platform's own search compares all of a long string at each
 * place of a text that nearly has it: many minutes for some megabytes.
 * @see Knuth, Morris, Pratt: Fast Pattern Matching in Strings (1977)
 */
export function placesOf(text: string, wanted: string, options: PlacesOptions = {}): number[] {
  const { most = Number.POSITIVE_INFINITY, overlap = false } = options;
  const borders = bordersOf(wanted);
  const places: number[] = [];
  let matched = 0;
  for (let at = 0; at < text.length && places.length <= most; at += 1) {
    const unit = text.charCodeAt(at);
    while (matched > 0 && wanted.charCodeAt(matched) !== unit) matched = borders[matched - 1] ?? 0;
    if (wanted.charCodeAt(matched) === unit) matched += 1;
    if (matched < wanted.length) continue;
    places.push(at + 1 - matched);
    matched = overlap ? (borders[matched - 1] ?? 0) : 0;
  }
  return places;
}

/** For each beginning of the string the length of the longest border: what it both begins and ends with. */
function bordersOf(wanted: string): Int32Array {
  const borders = new Int32Array(wanted.length);
  for (let at = 1, length = 0; at < wanted.length; at += 1) {
    const unit = wanted.charCodeAt(at);
    while (length > 0 && wanted.charCodeAt(length) !== unit) length = borders[length - 1] ?? 0;
    if (wanted.charCodeAt(length) === unit) length += 1;
    borders[at] = length;
  }
  return borders;
}
