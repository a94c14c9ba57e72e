/** The two releases of the public client that one suite drives: the newest, and one of the v1 routes. */

import * as newest from "e2b";
import * as older from "e2b-v1";
import { startServe, type TestServe } from "./serve.ts";

export type Sdk = typeof newest;

/** One release, with the name that its test cases carry. */
export interface Release {
  readonly release: string;
  readonly sdk: Sdk;
}

export const RELEASES: readonly Release[] = [
  { release: "2.51.0", sdk: newest },
  // Private members make two releases strangers to the compiler; what the suite calls is in both.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  { release: "2.45.0", sdk: older as unknown as Sdk },
];

export interface SdkServe extends AsyncDisposable {
  readonly serve: TestServe;
  /** What a client needs to reach this service and no other. */
  readonly options: {
    readonly apiKey: string;
    readonly apiUrl: string;
    readonly sandboxUrl: string;
  };
}

/** Starts a service and says how a client reaches it. */
export async function startSdkServe(flags: readonly string[] = []): Promise<SdkServe> {
  const serve = await startServe(flags);
  return {
    serve,
    options: { apiKey: serve.apiKey, apiUrl: serve.url, sandboxUrl: serve.url },
    async [Symbol.asyncDispose]() {
      await serve[Symbol.asyncDispose]();
    },
  };
}
