/** A host on a client library: what the releases of it have in common, and where they differ. */

import { toReply } from "../mcp/tool-reply.ts";
import { LOG_TEMPLATE, textOf, type Host } from "./host.ts";

interface Address {
  readonly uri: string;
}

/** What is called alike in every release. */
interface LibraryClient {
  listTools(): Promise<{ readonly tools: Awaited<ReturnType<Host["listTools"]>> }>;
  listResources(): Promise<{ readonly resources: readonly Address[] }>;
  readResource(address: { uri: string }): Promise<{ readonly contents: readonly unknown[] }>;
  complete(question: {
    ref: typeof LOG_TEMPLATE;
    argument: { name: string; value: string };
  }): Promise<{ readonly completion: { readonly values: readonly string[] } }>;
  subscribeResource(address: { uri: string }): Promise<unknown>;
  unsubscribeResource(address: { uri: string }): Promise<unknown>;
  close(): Promise<void>;
}

interface CallSettings {
  readonly onprogress?: (progress: { progress: number; message?: string | undefined }) => void;
  readonly signal?: AbortSignal;
}

/** What a release has its own way to. */
export interface Differences {
  /** Has every notice of a changed resource told. */
  onUpdated(tell: (uri: string) => void): void;
  callTool(
    wish: { readonly name: string; readonly arguments: Record<string, unknown> },
    settings: CallSettings,
  ): Promise<Readonly<Record<string, unknown>>>;
  /** Subscribes; undefined where the older era's way is to be taken. */
  listen?(uri: string): Promise<AsyncDisposable | undefined>;
}

export function createLibraryHost(client: LibraryClient, own: Differences): Host {
  const followers = new Map<string, (uri: string) => void>();
  own.onUpdated((uri) => {
    for (const tell of followers.values()) tell(uri);
  });
  return {
    listTools: async () => (await client.listTools()).tools,
    async call(name, input, { onProgress, signal } = {}) {
      const settings = {
        ...(onProgress !== undefined && { onprogress: onProgress }),
        ...(signal !== undefined && { signal }),
      };
      return toReply(await own.callTool({ name, arguments: { ...input } }, settings));
    },
    listResources: async () => (await client.listResources()).resources.map(({ uri }) => uri),
    readResource: async (uri) => textOf((await client.readResource({ uri })).contents),
    async completeSandboxId(value) {
      const argument = { name: "sandbox_id", value };
      return (await client.complete({ ref: LOG_TEMPLATE, argument })).completion.values;
    },
    async follow(uri, onUpdate) {
      followers.set(uri, onUpdate);
      const listening = await own.listen?.(uri);
      if (listening !== undefined) return listening;
      await client.subscribeResource({ uri });
      return {
        async [Symbol.asyncDispose]() {
          await client.unsubscribeResource({ uri });
        },
      };
    },
    async [Symbol.asyncDispose]() {
      await client.close();
    },
  };
}
