/**
 * From what a request says of its registry to the login that skopeo is given. Secrets are in no
 * message: an error of this file quotes hostnames and regions alone.
 */

import { SandboxError } from "../common/errors.ts";
import { tryParseJson } from "../common/json.ts";
import { z } from "../common/schema.ts";
import { fetchEcrLogin, findEcr, type EcrLogin } from "./ecr.ts";
import type { RegistryCredentials } from "./images.ts";
import { parseReference } from "./reference.ts";

/** The user of Google's registries whose password is the key of a service account, as JSON. */
const GCP_USER = "_json_key";
const MAX_ACCOUNT_BYTES = 16_384;

const accountSchema = z.looseObject({
  private_key: z.string().min(1),
  client_email: z.string().min(1),
});

/** The login of a request, for one fetch; it is stored nowhere. */
export type RegistryLogin =
  | ({ readonly kind: "password" } & RegistryCredentials)
  | ({ readonly kind: "aws" } & EcrLogin)
  | { readonly kind: "gcp"; readonly serviceAccount: string };

export interface LoginOptions {
  readonly signal: AbortSignal;
  /** Given by tests: asked in the place of the API of ECR. */
  readonly ecrEndpoint?: string | undefined;
}

/**
 * Checks what can be checked without a network.
 * @throws SandboxError invalid_argument
 */
export function checkRegistryLogin(login: RegistryLogin, reference: string): void {
  if (login.kind === "aws") findEcr(hostOf(reference), login);
  if (login.kind === "gcp") requireAccount(login.serviceAccount);
}

/**
 * The login for the registry of an image; that of AWS is asked for.
 * @throws SandboxError as `checkRegistryLogin` and `fetchEcrLogin`
 */
export async function toCredentials(
  login: RegistryLogin,
  reference: string,
  { signal, ecrEndpoint }: LoginOptions,
): Promise<RegistryCredentials> {
  checkRegistryLogin(login, reference);
  if (login.kind === "gcp") return { username: GCP_USER, password: login.serviceAccount };
  if (login.kind === "password") return { username: login.username, password: login.password };
  const { kind: _kind, ...key } = login;
  return fetchEcrLogin(ecrEndpoint ?? findEcr(hostOf(reference), key), key, signal);
}

function hostOf(reference: string): string {
  const parsed = parseReference(reference);
  return parsed.kind === "registry" ? parsed.host : "";
}

/** The parser's own message would repeat a part of the key. */
function requireAccount(text: string): void {
  const isShort = Buffer.byteLength(text) <= MAX_ACCOUNT_BYTES;
  if (isShort && accountSchema.safeParse(tryParseJson(text)).success) return;
  throw new SandboxError(
    "invalid_argument",
    "the service account of Google must be the JSON of its key, with private_key and client_email",
  );
}
