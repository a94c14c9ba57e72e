/**
 * Lists of the API server, page by page: of one kind, by labels. A page that is larger than a reply may
 * be is asked for again with fewer objects. A list is whole or a fault.
 */

import { SandboxError } from "../../common/errors.ts";
import { z } from "../../common/schema.ts";
import { isExpired, isTooLarge, type ClusterApi } from "./api.ts";

/** Objects of the first page. */
const PAGE_SIZE = 500;
/** A token ends with the version of its list, which the API server forgets after some minutes. */
const MAX_LISTS = 3;
/** Far more objects than a namespace holds: a server that never ends a list gives no more. */
const MAX_PAGES = 10_000;

const pageSchema = z.object({
  metadata: z.object({ resourceVersion: z.string(), continue: z.string().optional() }),
  items: z.array(z.unknown()),
});

type Page = z.infer<typeof pageSchema>;

export interface ListQuery {
  /** `pods`, `configmaps`, `leases` or another plural. */
  readonly kind: string;
  readonly selector: string;
  readonly signal?: AbortSignal | undefined;
}

export interface WholeList {
  readonly items: readonly unknown[];
  /** From which a watch goes on. */
  readonly version: string;
}

/** @throws SandboxError unavailable when no whole list was had, and as `ClusterApi.call` */
export async function listObjects(
  api: Pick<ClusterApi, "call">,
  query: ListQuery,
): Promise<WholeList> {
  for (let tried = 1; ; tried += 1) {
    try {
      return await listOnce(api, query);
    } catch (error) {
      if (!isExpired(error)) throw error;
      if (tried < MAX_LISTS) continue;
      throw new SandboxError("unavailable", `the list of ${query.kind} expires before its end`, {
        cause: error,
      });
    }
  }
}

async function listOnce(api: Pick<ClusterApi, "call">, query: ListQuery): Promise<WholeList> {
  const items: unknown[] = [];
  let limit = PAGE_SIZE;
  let token = "";
  for (let pages = 0; pages < MAX_PAGES; pages += 1) {
    const found = await readPage(api, query, { limit, token });
    ({ limit } = found);
    items.push(...found.page.items);
    const { resourceVersion: version, continue: next = "" } = found.page.metadata;
    if (next === "") return { items, version };
    if (next === token) break;
    token = next;
  }
  throw new SandboxError("unavailable", `the list of ${query.kind} does not end`);
}

/** With as many objects as fit into a reply: the next page begins with that number. */
async function readPage(
  api: Pick<ClusterApi, "call">,
  { kind, selector, signal }: ListQuery,
  { limit: most, token }: { readonly limit: number; readonly token: string },
): Promise<{ readonly page: Page; readonly limit: number }> {
  for (let limit = most; ; limit = Math.floor(limit / 2)) {
    const query = { labelSelector: selector, limit: String(limit), continue: token };
    try {
      const reply = await api.call({ method: "GET", path: kind, query, signal });
      return { page: toPage(reply, kind), limit };
    } catch (error) {
      if (!isTooLarge(error) || limit <= 1) throw error;
    }
  }
}

/** A proxy before the API server may answer anything. */
function toPage(reply: unknown, kind: string): Page {
  const parsed = pageSchema.safeParse(reply);
  if (parsed.success) return parsed.data;
  throw new SandboxError("unavailable", `the list of ${kind} has no form of Kubernetes`);
}
