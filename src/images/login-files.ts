/** Which of the files with logins that docker and podman write is used for a registry. */

import { readFile } from "node:fs/promises";
import { toLoginPlace } from "./reference.ts";

const MAX_LOGIN_BYTES = 1024 * 1024;

/** The first file that knows this registry. */
export async function findLoginFile(
  files: readonly string[],
  host: string,
): Promise<string | undefined> {
  for (const path of files) {
    // One that is missing, or not as it must be, knows no registry.
    const text = await readFile(path, "utf8").catch(() => "");
    if (text.length <= MAX_LOGIN_BYTES && knows(text, host)) return path;
  }
  return undefined;
}

/** By the keys that skopeo takes for this registry, too. */
function knows(text: string, host: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== "object" || value === null) return false;
    if ("credsStore" in value) return true;
    const tables = ["auths", "credHelpers"].map((key) => Reflect.get(value, key));
    const names = tables.flatMap((table) =>
      typeof table === "object" && table !== null ? Object.keys(table) : [],
    );
    const wanted = toLoginPlace(host);
    const places = names.map(toLoginPlace);
    return places.some((place) => place === wanted || place.startsWith(`${wanted}/`));
  } catch {
    return false;
  }
}
