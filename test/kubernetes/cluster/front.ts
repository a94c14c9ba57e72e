/** A front as its Deployment runs it: the built program with the token of the service account. */

import { mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { z } from "../../../src/common/schema.ts";
import type { Cluster } from "./cluster.ts";
import { startProgram, type Program } from "./process.ts";

const MAIN = resolve(import.meta.dirname, "../../../dist/main.js");
const START_MS = 60_000;
const tokenSchema = z.object({ status: z.object({ token: z.string() }) });

export interface FrontOptions {
  readonly name: string;
  readonly port: number;
  readonly apiKey: string;
  readonly account: string;
  readonly image: string;
  readonly flags?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
}

export interface Front extends AsyncDisposable {
  readonly url: string;
  readonly program: Program;
  ready(): Promise<void>;
}

/** The directory of a service account, with a token that the API server has issued. */
export async function writeAccount(
  cluster: Cluster,
  namespace: string,
  account: string,
): Promise<string> {
  using admin = cluster.admin(namespace);
  const reply = await admin.call({
    method: "POST",
    path: `serviceaccounts/${account}/token`,
    body: { apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest", spec: {} },
  });
  const { status } = tokenSchema.parse(reply);
  const directory = join(cluster.directory, `account-${account}`);
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, "token"), status.token, { mode: 0o600 });
  writeFileSync(join(directory, "ca.crt"), cluster.ca);
  writeFileSync(join(directory, "namespace"), namespace);
  return directory;
}

export function startFront(place: Cluster, given: FrontOptions): Front {
  const { name, port, apiKey, account, image, flags = [], environment } = given;
  const home = join("/run", name);
  const url = `http://127.0.0.1:${port}`;
  const options = `serve --engine kubernetes --home ${home} --port ${port} --log-level debug`;
  const cluster = `--kubernetes-url ${place.url} --kubernetes-account ${account}`;
  const program = startProgram({
    directory: place.directory,
    name,
    words: [
      process.execPath,
      MAIN,
      ...`${options} ${cluster} --pod-images base=${image}`.split(" "),
      ...flags,
    ],
    environment: { SANDBOX_MCP_API_KEY: apiKey, HOSTNAME: name, ...environment },
  });
  return {
    url,
    program,
    async ready() {
      const endMs = performance.now() + START_MS;
      while (performance.now() < endMs) {
        const headers = { "x-api-key": apiKey };
        const reply = await fetch(`${url}/v2/sandboxes`, { headers }).catch(() => undefined);
        if (reply?.ok) return;
        await delay(100);
      }
      throw new Error(`${name} does not answer, its log is ${name}.log`);
    },
    [Symbol.asyncDispose]: () => program[Symbol.asyncDispose](),
  };
}
