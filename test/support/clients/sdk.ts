/**
 * The two releases of the public client that one suite drives: the newest, and one of the v1 routes.
 * With `SDK_TLS`, a folder with a certificate, the service speaks TLS and the releases know no more
 * than a key and a domain; `test/over-tls/main.ts` sets it.
 */

import assert from "node:assert/strict";
import { join } from "node:path";
import * as newest from "e2b";
import * as older from "e2b-v1";
import { afterAll, beforeAll } from "vitest";
import { takeCensus, type Census } from "../census.ts";
import { isGvisor } from "../level.ts";
import { startServe, type TestServe } from "../serve.ts";

export type Sdk = typeof newest;

/** One release, with the name that its test cases carry. */
export interface Release {
  readonly release: string;
  readonly sdk: Sdk;
}

const tlsFolder = process.env["SDK_TLS"];
const DOMAIN = "sandbox.localhost";

const NEWEST: Release = { release: "2.51.0", sdk: newest };
// Private members make two releases strangers to the compiler; what the suite calls is in both.
// oxlint-disable-next-line typescript/no-unsafe-type-assertion
const OLDER: Release = { release: "2.45.0", sdk: older as unknown as Sdk };

/** The address of a running service; `test/kubernetes/inside.ts` sets it. */
const frontUrl = process.env["SDK_FRONT"];

/** Whether sandboxes are Pods, which have fewer abilities. */
export const isOfPods = frontUrl !== undefined;

/** Whether clients know the service by its domain. */
export const isOverTls = tlsFolder !== undefined;

/** Of the sandboxes' runtime; also set by `test/over-tls/main.ts`. */
const runtime = process.env["E2E_RUNTIME"];
const level = runtime === undefined ? [] : ["--runtime", runtime];

/**
 * Whether uploads keep their metadata: wherever a program of the sandbox can set an attribute, which
 * not every version of gVisor lets it.
 */
export async function keepsAttributes(sandbox: newest.Sandbox): Promise<boolean> {
  if (!isGvisor) return true;
  const set = 'import os; open("marked", "w"); os.setxattr("marked", "user.mark", b"x")';
  const said = await sandbox.commands.run(`python3 -c '${set}' 2>&1; true`);
  assert(said.stdout === "" || said.stdout.includes("Operation not supported"), said.stdout);
  return said.stdout === "";
}

/** Whether all releases play, and none may be left out; `test/over-tls/main.ts` sets it. */
const isWhole = process.env["SDK_CLIENTS"] === "all";

/** A release that the registry has and the lock file has not, as `<version>=<directory>`. */
async function registryReleases(): Promise<Release[]> {
  const [release = "", directory = ""] = (process.env["SDK_NPM"] ?? "").split("=");
  if (directory === "") return [];
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- another release of the same package
  const sdk = (await import(join(directory, "dist/index.mjs"))) as Sdk;
  return [{ release, sdk }];
}

const registry = await registryReleases();

export const RELEASES: readonly Release[] =
  isOverTls && !isWhole ? [NEWEST] : [NEWEST, OLDER, ...registry];

/** Of the suites that `npm run clients:tls` plays in all releases: in `npm test` the newest. */
export const MATRIX_RELEASES: readonly Release[] = isWhole || isOfPods ? RELEASES : [NEWEST];

/** The newest release of all that play. */
export const newestSdk: Sdk = registry.at(-1)?.sdk ?? newest;

interface SdkServe extends AsyncDisposable {
  readonly serve: TestServe;
  /** What a client needs to reach this service and no other. */
  readonly options: {
    readonly apiKey: string;
    readonly apiUrl?: string;
    readonly sandboxUrl?: string;
    readonly domain?: string;
  };
  /** The same as variables. */
  readonly environment: Readonly<Record<string, string>>;
  /** Where calls go that a client has no method for. */
  readonly apiUrl: string;
  readonly sandboxUrl: string;
}

/**
 * A service for the suite that calls this, from before its first test until after its last; then
 * everything that it started is gone.
 */
export function useSdkServe(flags: readonly string[] = []): Omit<SdkServe, keyof AsyncDisposable> {
  let before: Census;
  let started: SdkServe | undefined;
  beforeAll(async () => {
    before = await takeCensus();
    started = await startSdkServe(flags);
  });
  afterAll(async () => {
    await started?.[Symbol.asyncDispose]();
    if (frontUrl === undefined) {
      assert.deepEqual(await takeCensus(started?.serve.home), before);
    }
  });
  const current = () => {
    assert(started !== undefined, "a service is there only while tests run");
    return started;
  };
  return {
    get serve() {
      return current().serve;
    },
    get options() {
      return current().options;
    },
    get environment() {
      return current().environment;
    },
    get apiUrl() {
      return current().apiUrl;
    },
    get sandboxUrl() {
      return current().sandboxUrl;
    },
  };
}

function useFront(url: string): SdkServe {
  const apiKey = process.env["SDK_FRONT_KEY"] ?? "";
  return {
    get serve(): never {
      throw new Error("the service was started by somebody else");
    },
    ...byUrl({ apiKey, url }),
    [Symbol.asyncDispose]: async () => undefined,
  };
}

async function startSdkServe(flags: readonly string[]): Promise<SdkServe> {
  if (frontUrl !== undefined) return useFront(frontUrl);
  const tls = tlsFolder === undefined ? [] : tlsFlags(tlsFolder);
  const serve = await startServe([...tls, ...level, ...flags]);
  return {
    serve,
    ...(tlsFolder === undefined ? byUrl(serve) : byDomain(serve, tlsFolder)),
    async [Symbol.asyncDispose]() {
      await serve[Symbol.asyncDispose]();
    },
  };
}

function tlsFlags(folder: string): string[] {
  const files = ["--tls-cert", join(folder, "cert.pem"), "--tls-key", join(folder, "key.pem")];
  return [...files, "--domain", DOMAIN];
}

function byUrl({ apiKey, url }: Pick<TestServe, "apiKey" | "url">) {
  return {
    options: { apiKey, apiUrl: url, sandboxUrl: url },
    environment: {
      E2B_API_KEY: apiKey,
      E2B_API_URL: url,
      E2B_SANDBOX_URL: url,
      E2B_VOLUME_API_URL: url,
    },
    apiUrl: url,
    sandboxUrl: url,
  };
}

function byDomain({ apiKey, url }: TestServe, folder: string) {
  const domain = `${DOMAIN}:${new URL(url).port}`;
  const authority = join(folder, "ca.pem");
  return {
    options: { apiKey, domain },
    environment: {
      E2B_API_KEY: apiKey,
      E2B_DOMAIN: domain,
      NODE_EXTRA_CA_CERTS: authority,
      NODE_OPTIONS: process.env["NODE_OPTIONS"] ?? "",
      SSL_CERT_FILE: authority,
      PYTHONDONTWRITEBYTECODE: "1",
      PYTHONPATH: join(import.meta.dirname, "../python-names"),
    },
    apiUrl: `https://api.${domain}`,
    sandboxUrl: `https://sandbox.${domain}`,
  };
}
