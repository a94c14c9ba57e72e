/**
 * Logins of Amazon's Elastic Container Registry: an access key is exchanged for a password that skopeo
 * can use for twelve hours.
 * @see https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_GetAuthorizationToken.html
 */

import { anySignal } from "../common/any-signal.ts";
import { SandboxError, toSandboxError } from "../common/errors.ts";
import { readBounded } from "../common/http.ts";
import { parseJson } from "../common/json.ts";
import { signalAfter } from "../common/late-signal.ts";
import { z } from "../common/schema.ts";
import { quoteUntrusted } from "../common/untrusted-text.ts";
import { signRequest, type AwsKey } from "./aws-signature.ts";
import type { RegistryCredentials } from "./images.ts";

const TIMEOUT_MS = 15_000;
/** A token has some 2,500 characters. */
const MAX_REPLY_BYTES = 65_536;
const MAX_REPLY_VALUES = 256;
/** As AWS documents an access key id, which is a part of a header. */
const KEY_ID_PATTERN = /^\w{16,128}$/;
const TARGET = "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken";

const REGION = "(?<region>[a-z]{2,8}(?:-[a-z]{2,16}){1,3}-[0-9]{1,2})";
const HOST_PATTERN = new RegExp(
  String.raw`^[0-9]{12}\.dkr[.-]ecr(?:-fips)?\.${REGION}\.(?<domain>amazonaws\.com(?:\.cn)?|on\.aws)$`,
);

/** An access key with the region in which it is used. */
export interface EcrLogin extends AwsKey {
  readonly region: string;
}

/**
 * The API that gives logins of the registry `host`, as `123456789012.dkr.ecr.eu-west-1.amazonaws.com`.
 * @throws SandboxError invalid_argument when the host is no registry of ECR, is in another region, or
 * the key cannot be one
 */
export function findEcr(host: string, { region, accessKeyId }: EcrLogin): string {
  const found = HOST_PATTERN.exec(host)?.groups;
  if (found === undefined) {
    const form = "ACCOUNT.dkr.ecr.REGION.amazonaws.com";
    throw refuse(`${quoteUntrusted(host)} is no registry of Amazon ECR, as ${form}`);
  }
  if (found["region"] !== region) {
    throw refuse(`the registry is in ${found["region"]}, the login is for another region`);
  }
  // What is no id may be a secret that was put in its place.
  if (!KEY_ID_PATTERN.test(accessKeyId)) throw refuse("the access key id of AWS is not valid");
  const domain = found["domain"] === "amazonaws.com.cn" ? "amazonaws.com.cn" : "amazonaws.com";
  return `https://api.ecr.${region}.${domain}/`;
}

/**
 * Exchanges a key for a login.
 * @throws SandboxError permission_denied when AWS refuses the key, unavailable when there is no usable
 * reply, deadline_exceeded after 15 s, canceled
 */
export async function fetchEcrLogin(
  endpoint: string,
  login: EcrLogin,
  signal: AbortSignal,
): Promise<RegistryCredentials> {
  const subject = `Amazon ECR in ${login.region}`;
  const { status, body } = await send(endpoint, { ...login, subject, signal });
  const value = parse(body);
  if (status === 200) return toCredentials(value, subject);
  // The message of a refusal may repeat what was signed; its type is a word.
  const type = refusalSchema.safeParse(value).data;
  const answer = `${status}${type === undefined ? "" : ` ${type}`}`;
  if (status >= 500 || status === 429 || type?.startsWith("Throttling")) {
    throw new SandboxError("unavailable", `${subject} answered ${answer}`);
  }
  throw new SandboxError("permission_denied", `${subject} refuses this access key: ${answer}`);
}

interface EcrCall extends EcrLogin {
  readonly subject: string;
  readonly signal: AbortSignal;
}

async function send(endpoint: string, { subject, signal, region, ...key }: EcrCall) {
  const headers = signRequest(
    {
      method: "POST",
      host: new URL(endpoint).host,
      headers: { "content-type": "application/x-amz-json-1.1", "x-amz-target": TARGET },
      body: "{}",
      region,
      service: "ecr",
      atMs: Date.now(),
    },
    key,
  );
  try {
    const reply = await fetch(endpoint, {
      method: "POST",
      headers,
      body: "{}",
      redirect: "error",
      signal: anySignal([signal, signalAfter(TIMEOUT_MS)]),
    });
    const body = await readBounded(piecesOf(reply), MAX_REPLY_BYTES, subject);
    return { status: reply.status, body };
  } catch (error) {
    const fault = toSandboxError(error, subject);
    if (fault.code === "canceled" || fault.code === "deadline_exceeded") throw fault;
    throw new SandboxError("unavailable", `${subject} does not answer`, { cause: error });
  }
}

async function* piecesOf({ body }: Response): AsyncGenerator<Uint8Array> {
  if (body !== null) yield* body;
}

/** Undefined for what is no JSON; a parser's message would repeat a part of it. */
function parse(body: Buffer): unknown {
  try {
    return parseJson(body, { maxValues: MAX_REPLY_VALUES });
  } catch {
    return undefined;
  }
}

/** The last part of `com.amazonaws.ecr#AccessDeniedException`. */
const refusalSchema = z
  .object({ __type: z.string() })
  .transform((fields) => /(?:^|#)([A-Za-z]{1,64})$/.exec(fields["__type"])?.[1]);
const tokenSchema = z.object({
  authorizationData: z.array(z.object({ authorizationToken: z.base64() })).min(1),
});

function toCredentials(value: unknown, subject: string): RegistryCredentials {
  const token = tokenSchema.safeParse(value).data?.authorizationData[0]?.authorizationToken ?? "";
  const text = Buffer.from(token, "base64").toString("utf8");
  const [, username, password] = /^([^:]+):(.+)$/s.exec(text) ?? [];
  if (username !== undefined && password !== undefined) return { username, password };
  throw new SandboxError("unavailable", `${subject} sent no login`);
}

function refuse(message: string): SandboxError {
  return new SandboxError("invalid_argument", message);
}
