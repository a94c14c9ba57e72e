/**
 * Signature Version 4 of AWS, for a request of the path `/` without a query: all that the API of ECR
 * needs.
 * @see https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
 */

import { createHmac } from "node:crypto";
import { sha256Hex } from "../common/hash.ts";

const ALGORITHM = "AWS4-HMAC-SHA256";

export interface AwsKey {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
}

export interface UnsignedRequest {
  readonly method: "GET" | "POST";
  readonly host: string;
  /** Besides `host` and `x-amz-date`, which are added; all of them are signed. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly region: string;
  readonly service: string;
  /** Milliseconds since 1970; AWS refuses a request whose time is far from its own. */
  readonly atMs: number;
}

/** The headers of a request with its signature, in lower case and without `host`. */
export function signRequest(request: UnsignedRequest, key: AwsKey): Record<string, string> {
  const { region, service, host } = request;
  const time = new Date(request.atMs).toISOString().replaceAll(/[-:]|\.[0-9]{3}/g, "");
  const date = time.slice(0, 8);
  const given = Object.entries(request.headers).map(
    ([name, value]) => [name.toLowerCase(), value] as const,
  );
  const headers = Object.fromEntries([...given, ["x-amz-date", time] as const]);
  const signed = Object.entries({ ...headers, host }).toSorted(([left], [right]) =>
    left < right ? -1 : 1,
  );
  const names = signed.map(([name]) => name).join(";");
  const canonical = [
    request.method,
    "/",
    "",
    ...signed.map(([name, value]) => `${name}:${value.trim().replaceAll(/ +/g, " ")}`),
    "",
    names,
    sha256Hex(request.body),
  ].join("\n");
  const scope = `${date}/${region}/${service}/aws4_request`;
  const text = [ALGORITHM, time, scope, sha256Hex(canonical)].join("\n");
  const signingKey = [date, region, service, "aws4_request"].reduce<Buffer | string>(
    hmac,
    `AWS4${key.secretAccessKey}`,
  );
  const signature = hmac(signingKey, text).toString("hex");
  const authorization =
    `${ALGORITHM} Credential=${key.accessKeyId}/${scope}, ` +
    `SignedHeaders=${names}, Signature=${signature}`;
  return { ...headers, authorization };
}

function hmac(key: Buffer | string, text: string): Buffer {
  return createHmac("sha256", key).update(text).digest();
}
