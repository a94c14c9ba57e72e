/** The configuration of the engine kubernetes. */

import type { Given } from "./settings.ts";

type Environment = Readonly<Record<string, string | undefined>>;

export interface ClusterConfig {
  /** Undefined where none was given and this process is in no Pod. */
  readonly url: string | undefined;
  /** Undefined: that of the service account. */
  readonly namespace: string | undefined;
  readonly accountDirectory: string;
  readonly images: readonly { readonly name: string; readonly image: string }[];
  /** A file in YAML or JSON. */
  readonly podTemplate: string | undefined;
  /** Undefined where sandboxes have no rules of egress of their own. */
  readonly egress:
    | { readonly denied: readonly string[]; readonly nameServers: readonly string[] }
    | undefined;
  /** Undefined where snapshots and forks are not offered. */
  readonly snapshots:
    | { readonly registry: string; readonly loginFile: string | undefined }
    | undefined;
  /** Undefined where volumes are not offered. */
  readonly volumes: { readonly storageClass: string; readonly accessMode: string } | undefined;
  /** The name of this Pod or machine. */
  readonly hostname: string | undefined;
}

const ACCOUNT_DIRECTORY = "/var/run/secrets/kubernetes.io/serviceaccount";

/** From the settings, and in a Pod from its environment. */
export function toCluster(given: Given, environment: Environment): ClusterConfig {
  const host = environment["KUBERNETES_SERVICE_HOST"] ?? "";
  const port = environment["KUBERNETES_SERVICE_PORT"] ?? "443";
  const own =
    host === "" ? undefined : `https://${host.includes(":") ? `[${host}]` : host}:${port}`;
  return {
    url: given.kubernetesUrl ?? own,
    namespace: given.kubernetesNamespace,
    accountDirectory: given.kubernetesAccount ?? ACCOUNT_DIRECTORY,
    images: given.podImages ?? [],
    podTemplate: given.podTemplate,
    egress: given.egressDenied && {
      denied: given.egressDenied,
      nameServers: given.egressNameServers ?? [],
    },
    snapshots:
      given.snapshotRegistry === undefined
        ? undefined
        : { registry: given.snapshotRegistry, loginFile: given.snapshotRegistryLogin },
    volumes:
      given.volumeClass === undefined
        ? undefined
        : { storageClass: given.volumeClass, accessMode: given.volumeAccess ?? "ReadWriteMany" },
    hostname: environment["HOSTNAME"],
  };
}
