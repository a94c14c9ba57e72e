/** Where snapshots are pushed, where images are read, and the logins for both. */

import { readFile } from "node:fs/promises";
import { SandboxError } from "../../common/errors.ts";
import { parseJson } from "../../common/json.ts";
import { z } from "../../common/schema.ts";
import { parseReference, toLoginPlace } from "../../images/reference.ts";
import type { RegistryCredentials, RegistryPlace } from "./registry.ts";

const PLAIN = "http://";
const LOOPBACK = /^(?:localhost|127(?:\.[0-9]{1,3}){3}|\[::1\])(?::[0-9]+)?$/;
const HUB = "docker.io";
const HUB_HOST = "registry-1.docker.io";

export interface SnapshotSettings {
  /** `[http://]HOST/REPOSITORY` */
  readonly registry: string;
  /** A `config.json` as docker writes it; undefined for registries that need no login. */
  readonly loginFile: string | undefined;
}

const loginSchema = z.object({
  auth: z.string().optional(),
  username: z.string().optional(),
  password: z.string().optional(),
});
/** A program that keeps logins leaves the entries of its registries empty. */
const loginsSchema = z.object({
  auths: z.record(z.string(), loginSchema).default({}),
  credHelpers: z.record(z.string(), z.string()).default({}),
});

/** An image, and the registry that has it. */
export interface ImagePlace {
  readonly place: RegistryPlace;
  readonly tag: string;
  readonly digest: string | undefined;
  /** `HOST/REPOSITORY`, as a Pod names it. */
  readonly name: string;
}

/** @throws SandboxError invalid_argument, failed_precondition for logins that cannot be read */
export async function findImagePlace(
  reference: string,
  { registry, loginFile }: SnapshotSettings,
): Promise<ImagePlace> {
  const plainHost = registry.startsWith(PLAIN) ? hostOf(registry.slice(PLAIN.length)) : undefined;
  const bare = reference.startsWith(PLAIN) ? reference.slice(PLAIN.length) : reference;
  const parsed = parseReference(bare);
  if (parsed.kind !== "registry") {
    throw new SandboxError("invalid_argument", `no image of a registry: ${bare.slice(0, 200)}`);
  }
  const { host, repository, tag, digest } = parsed;
  const isPlain = host === plainHost || reference.startsWith(PLAIN) || LOOPBACK.test(host);
  const origin = `${isPlain ? "http" : "https"}://${host === HUB ? HUB_HOST : host}`;
  const credentials = loginFile === undefined ? undefined : await findLogin(loginFile, host);
  return { place: { origin, repository, credentials }, tag, digest, name: `${host}/${repository}` };
}

function hostOf(text: string): string {
  return (text.split("/", 1)[0] ?? "").toLowerCase();
}

function placeOf(key: string): string {
  return toLoginPlace(key.toLowerCase());
}

/** Read each time: a Secret that is mounted may have changed. */
async function findLogin(file: string, host: string): Promise<RegistryCredentials | undefined> {
  let logins: z.infer<typeof loginsSchema>;
  try {
    logins = loginsSchema.parse(parseJson(await readFile(file)));
  } catch {
    // The parser's own message would repeat a part of a password.
    throw new SandboxError("failed_precondition", "the logins of registries cannot be read", {
      hint: "--snapshot-registry-login names a config.json as docker writes it",
    });
  }
  const found = entryOf(logins.auths, host);
  const credentials = found && toCredentials(found);
  if (credentials !== undefined) return credentials;
  if (found === undefined && entryOf(logins.credHelpers, host) === undefined) return undefined;
  throw new SandboxError(
    "failed_precondition",
    `the login of the registry ${host} is in no form that is read`,
    { hint: "--snapshot-registry-login names a file with auth or with username and password" },
  );
}

/** The registry as it is written stands above another name of it. */
function entryOf<T>(table: Readonly<Record<string, T>>, host: string): T | undefined {
  const entries = Object.entries(table);
  const [, found] =
    entries.find(([key]) => key === host) ??
    entries.find(([key]) => placeOf(key) === placeOf(host)) ??
    [];
  return found;
}

/** Undefined for an entry without a user, for which a token or a program stands. */
function toCredentials({ auth, username, password = "" }: z.infer<typeof loginSchema>) {
  if (auth === undefined || auth === "") {
    return username === undefined || username === "" ? undefined : { username, password };
  }
  const text = Buffer.from(auth, "base64").toString("utf8");
  const colon = text.indexOf(":");
  if (colon < 1) return undefined;
  return { username: text.slice(0, colon), password: text.slice(colon + 1) };
}
