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

/**
 * By the keys that skopeo takes for this registry, too. It asks no program of `credsStore`: of an entry that
 * docker left empty for one it would send an empty login, which registries refuse also for public images.
 */
function knows(text: string, host: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    const helpers = Object.keys(tableOf(value, "credHelpers"));
    const logins = Object.entries(tableOf(value, "auths")).flatMap(([key, login]) =>
      ["auth", "identitytoken"].some((name) => isText(tableOf(login)[name])) ? [key] : [],
    );
    const wanted = toLoginPlace(host);
    const places = [...helpers, ...logins].map(toLoginPlace);
    return places.some((place) => place === wanted || place.startsWith(`${wanted}/`));
  } catch {
    return false;
  }
}

/** The fields of an object, or of one in it; none of anything else. */
function tableOf(value: unknown, key?: string): Readonly<Record<string, unknown>> {
  if (typeof value !== "object" || value === null) return {};
  const fields = Object.fromEntries(Object.entries(value));
  return key === undefined ? fields : tableOf(fields[key]);
}

function isText(value: unknown): boolean {
  return typeof value === "string" && value !== "";
}
