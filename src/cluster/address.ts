/** Where the API server is, and who this process is for it: the service account of its Pod. */

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { SandboxError } from "../common/errors.ts";
import { readIfThere } from "../common/files.ts";

/** Tokens of service accounts are replaced by the kubelet long before they expire. */
const TOKEN_AGE_MS = 60_000;

export interface ClusterAddress {
  readonly url: URL;
  readonly namespace: string;
  /** Certificates in PEM; undefined for those that Node trusts. */
  readonly ca: string | undefined;
  /** Undefined where the address itself is permission enough, as that of `kubectl proxy`. */
  readToken(): Promise<string | undefined>;
  /** Of one reply, in tests. */
  readonly maxReplyBytes?: number;
}

export interface AddressOptions {
  /** Undefined outside of a Pod, unless it was configured. */
  readonly url: string | undefined;
  /** Undefined: the namespace of the service account. */
  readonly namespace: string | undefined;
  /** The directory with `token`, `ca.crt` and `namespace`. */
  readonly accountDirectory: string;
}

/** @throws SandboxError failed_precondition when it is not known where the cluster is. */
export async function findCluster(options: AddressOptions): Promise<ClusterAddress> {
  const { url, accountDirectory } = options;
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
    ca: await readIfThere(join(accountDirectory, "ca.crt")),
    readToken: createTokenReader(join(accountDirectory, "token")),
  };
}

function createTokenReader(path: string): () => Promise<string | undefined> {
  let token: string | undefined;
  let readAtMs = Number.NEGATIVE_INFINITY;
  return async () => {
    if (performance.now() - readAtMs < TOKEN_AGE_MS) return token;
    token = (await readFile(path, "utf8").catch(() => undefined))?.trim();
    readAtMs = performance.now();
    return token;
  };
}
