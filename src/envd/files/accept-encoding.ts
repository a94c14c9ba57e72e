/** Which coding a download is sent in: as it is, or gzip. */

export interface Selection {
  /** Undefined when nothing that we can send is acceptable. */
  readonly coding: "identity" | "gzip" | undefined;
  /** Whether the client will not take the content as it is. */
  readonly isIdentityRefused: boolean;
}

interface Item {
  readonly name: string;
  readonly quality: number;
}

const QUALITY_PATTERN = /^q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)$/i;

/** Reads an Accept-Encoding header; absent or empty means as it is. */
export function selectCoding(header: string | undefined): Selection {
  const items = parseItems(header ?? "");
  const isIdentityRefused = refusesIdentity(items);
  if (items.length === 0) return { coding: "identity", isIdentityRefused };
  const wanted = items
    .filter((item) => item.quality > 0)
    .toSorted((left, right) => right.quality - left.quality);
  for (const { name } of wanted) {
    if (name === "gzip") return { coding: "gzip", isIdentityRefused };
    if (name === "identity") return { coding: "identity", isIdentityRefused };
    if (name === "*") return { coding: isIdentityRefused ? "gzip" : "identity", isIdentityRefused };
  }
  return { coding: isIdentityRefused ? undefined : "identity", isIdentityRefused };
}

function refusesIdentity(items: readonly Item[]): boolean {
  const identity = items.find((item) => item.name === "identity");
  if (identity !== undefined) return identity.quality === 0;
  return items.some((item) => item.name === "*" && item.quality === 0);
}

function parseItems(header: string): Item[] {
  const items: Item[] = [];
  for (const part of header.split(",")) {
    const [name = "", ...parameters] = part.split(";").map((text) => text.trim());
    if (name === "") continue;
    const quality = parameters
      .map((text) => QUALITY_PATTERN.exec(text)?.[1])
      .find((text) => text !== undefined);
    items.push({ name: name.toLowerCase(), quality: quality === undefined ? 1 : Number(quality) });
  }
  return items;
}
