/** Fronts of a cluster that is the API server of the tests, with daemons of this process as Pods. */

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import type { PodSandboxesOptions } from "../../../src/cluster/pod-sandboxes.ts";
import { startFront } from "../../../src/commands/serve/serve-cluster.ts";
import { createSilentLog } from "../../../src/common/log.ts";
import { loadConfig } from "../../../src/config.ts";
import { sandboxSchema } from "../../../src/wire/control.ts";
import type { Call, Reply } from "../service.ts";
import { startApiServer, type TestApiServer } from "./api-server.ts";
import { startPodDaemons, type PodDaemons, type PodDaemonsOptions } from "./pod-daemons.ts";

export const POD_KEY = `e2b_${"7".repeat(40)}`;

export interface PodWorld extends AsyncDisposable {
  readonly api: TestApiServer;
  readonly daemons: PodDaemons;
  /** Starts one more front; returns its address. */
  start(registry?: Partial<PodSandboxesOptions>, home?: string): Promise<PodFront>;
}

export interface PodFront extends AsyncDisposable {
  readonly url: string;
  readonly home: string;
}

export interface PodWorldOptions extends PodDaemonsOptions {
  /** What fronts call in the place of the API server, which it may pass their calls on to. */
  readonly through?: (url: string) => Promise<{ readonly url: string } & AsyncDisposable>;
}

export async function startPodWorld({ through, ...pods }: PodWorldOptions = {}): Promise<PodWorld> {
  await using stack = new AsyncDisposableStack();
  const api = stack.use(await startApiServer());
  const { url: apiUrl } = through === undefined ? api : stack.use(await through(api.url));
  const daemons = stack.use(await startPodDaemons(api, pods));
  const directory = await mkdtemp(join(tmpdir(), "pods-"));
  stack.defer(() => rm(directory, { recursive: true, force: true }));
  const fronts = stack.use(new AsyncDisposableStack());
  const { username } = userInfo();
  let count = 0;
  const owned = stack.move();
  return {
    api,
    daemons,
    async start(registry = {}, home = join(directory, String(count + 1))) {
      count += 1;
      const words = `serve --engine kubernetes --port 0 --kubernetes-namespace test --pod-images base=image:1`;
      const given = ["--home", home, "--kubernetes-url", apiUrl, "--kubernetes-account", directory];
      const loaded = loadConfig({ SANDBOX_MCP_API_KEY: POD_KEY, HOSTNAME: `front${count}` }, [
        ...words.split(" "),
        ...given,
      ]);
      if ("faults" in loaded) throw new Error(loaded.faults.join("\n"));
      const front = await startFront({
        config: loaded.config,
        log: createSilentLog(),
        signal: AbortSignal.timeout(60_000),
        registry: {
          podPort: daemons.port,
          requireLevel: "none",
          images: [{ name: "base", image: "image:1", user: username, workdir: directory }],
          ...registry,
        },
      });
      fronts.use(front);
      return {
        url: `http://127.0.0.1:${front.port}`,
        home,
        [Symbol.asyncDispose]: front[Symbol.asyncDispose],
      };
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** A call for a sandbox that is a Pod, for tables of calls. */
export async function podRow() {
  const world = await startPodWorld();
  const { url } = await world.start();
  const service = { call: async (wanted: Call) => callFront(url, wanted) };
  const { body } = await service.call({
    method: "POST",
    path: "/v2/sandboxes",
    body: { templateID: "base" },
  });
  const { sandboxID } = sandboxSchema.parse(body);
  const finish = async () => world[Symbol.asyncDispose]();
  return { call: { path: `/sandboxes/${sandboxID}` }, service, finish };
}

/** A call with the key of these fronts. */
export async function callFront(
  url: string,
  { method = "GET", path, body, headers }: Omit<Call, "method"> & { readonly method?: string },
): Promise<Reply> {
  const reply = await fetch(url + path, {
    method,
    headers: { "x-api-key": POD_KEY, "content-type": "application/json", ...headers },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await reply.text();
  const parsed: unknown = text === "" ? undefined : JSON.parse(text);
  return { status: reply.status, headers: Object.fromEntries(reply.headers), text, body: parsed };
}

/** The same by `METHOD path`: the status, and a body whose fields can be named. */
export async function sendFront(url: string, call: `${string} ${string}`, body?: unknown) {
  const [method = "", path = ""] = call.split(" ");
  const reply = await callFront(url, { method, path, body });
  return { status: reply.status, body: Object(reply.body) };
}

/** Ends every sandbox of which there is a record, through the front with this address. */
export async function endSandboxes(api: TestApiServer, url: string): Promise<void> {
  for (const path of api.objects.keys()) {
    const [, id] = /^configmaps\/(i[a-z0-9]{20})$/.exec(path) ?? [];
    if (id !== undefined) await sendFront(url, `DELETE /sandboxes/${id}`);
  }
}
