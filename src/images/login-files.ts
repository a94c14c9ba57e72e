/** Which of the files with logins that docker and podman write is used for a registry. */

import { readFile } from "node:fs/promises";
import { tryParseJson } from "../common/json.ts";
import { toLoginPlace } from "./reference.ts";

const MAX_LOGIN_BYTES = 1024 * 1024;

/** The first file that knows this registry. */
export async function findLoginFile(
  files: readonly string[],
  host: string,
): Promise<string | undefined> {
  for (const path of files) if (knows(await readLogins(path), host)) return path;
  return undefined;
}

/** Whether docker was logged in to this registry and left the login to the program of `credsStore`. */
export async function isLoginKeptElsewhere(
  files: readonly string[],
  host: string,
): Promise<boolean> {
  for (const path of files) {
    const value = await readLogins(path);
    if (!isText(tableOf(value)["credsStore"])) continue;
    if (isNamed(Object.keys(tableOf(value, "auths")), host)) return true;
  }
  return false;
}

/** Undefined for a file that is missing, or not as it must be: it knows no registry. */
async function readLogins(path: string): Promise<unknown> {
  const text = await readFile(path, "utf8").catch(() => "");
  return text.length <= MAX_LOGIN_BYTES ? tryParseJson(text) : undefined;
}

/**
 * By the keys that skopeo takes for this registry, too. It asks no program of `credsStore`: of an entry that
 * docker left empty for one it would send an empty login, which registries refuse also for public images.
 */
function knows(value: unknown, host: string): boolean {
  const helpers = Object.keys(tableOf(value, "credHelpers"));
  const logins = Object.entries(tableOf(value, "auths")).flatMap(([key, login]) =>
    ["auth", "identitytoken"].some((name) => isText(tableOf(login)[name])) ? [key] : [],
  );
  return isNamed([...helpers, ...logins], host);
}

/** Whether one of the keys is of this registry, or of a part of it. */
function isNamed(keys: readonly string[], host: string): boolean {
  const wanted = toLoginPlace(host);
  const places = keys.map(toLoginPlace);
  return places.some((place) => place === wanted || place.startsWith(`${wanted}/`));
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
