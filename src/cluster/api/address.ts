/** Where the API server is, and who this process is for it: the service account of its Pod. */

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { SandboxError } from "../../common/errors.ts";
import { readIfThere } from "../../common/files.ts";

/** The kubelet replaces tokens of service accounts, and certificates, long before they expire. */
const FILE_AGE_MS = 60_000;

export interface ClusterAddress {
  readonly url: URL;
  readonly namespace: string;
  /** Certificates in PEM; undefined for those that Node trusts. */
  readonly readCa?: () => Promise<string | undefined>;
  /** Undefined where the address itself is permission enough, as that of `kubectl proxy`. */
  readToken(): Promise<string | undefined>;
  /** Of one reply, in tests. */
  readonly maxReplyBytes?: number;
  /** Until the end of a reply, or the begin of a watch, in tests. */
  readonly callTimeoutMs?: number;
}

export interface AddressOptions {
  /** Undefined outside of a Pod, unless it was configured. */
  readonly url: string | undefined;
  /** Undefined: the namespace of the service account. */
  readonly namespace: string | undefined;
  /** The directory with `token`, `ca.crt` and `namespace`. */
  readonly accountDirectory: string;
  /** How long what was read of its files counts, in tests. */
  readonly ageMs?: number;
}

/** @throws SandboxError failed_precondition when it is not known where the cluster is. */
export async function findCluster(options: AddressOptions): Promise<ClusterAddress> {
  const { url, accountDirectory, ageMs = FILE_AGE_MS } = options;
  if (url === undefined) {
    throw new SandboxError("failed_precondition", "no Kubernetes API server is known", {
      hint: "run it in a Pod, or name the address of `kubectl proxy` by --kubernetes-url",
    });
  }
  const known = await readIfThere(join(accountDirectory, "namespace"));
  const namespace = options.namespace ?? known?.trim();
  if (namespace === undefined || namespace === "") {
    throw new SandboxError("failed_precondition", "no namespace for sandboxes is known", {
      hint: "name it by --kubernetes-namespace",
    });
  }
  return {
    url: new URL(url),
    namespace,
    readCa: createReader(join(accountDirectory, "ca.crt"), ageMs),
    readToken: createReader(join(accountDirectory, "token"), ageMs),
  };
}

/** The text of a file, read again from time to time; while it cannot be read, that of before counts. */
function createReader(path: string, ageMs: number): () => Promise<string | undefined> {
  let known: string | undefined;
  let readAtMs = Number.NEGATIVE_INFINITY;
  return async () => {
    if (performance.now() - readAtMs < ageMs) return known;
    const text = await readFile(path, "utf8").catch(() => "");
    known = text.trim() || known;
    readAtMs = performance.now();
    return known;
  };
}
