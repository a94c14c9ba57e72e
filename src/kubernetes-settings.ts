/** The settings of `serve --engine kubernetes`. */

import { z } from "./common/schema.ts";
import {
  addressList,
  networkList,
  oneOf,
  path,
  podImages,
  registryPlace,
  webUrl,
  type Setting,
} from "./setting-values.ts";

export const KUBERNETES_SETTINGS = {
  podImages: {
    flag: "pod-images",
    environment: "SANDBOX_MCP_POD_IMAGES",
    schema: podImages,
    help: "engine kubernetes: templates and their images, base=IMAGE,NAME=IMAGE",
  },
  podTemplate: {
    flag: "pod-template",
    environment: "SANDBOX_MCP_POD_TEMPLATE",
    schema: path,
    help: "engine kubernetes: a file in YAML or JSON with placement, labels and requests of Pods",
  },
  egressDenied: {
    flag: "egress-denied",
    environment: "SANDBOX_MCP_EGRESS_DENIED",
    schema: networkList,
    help: "engine kubernetes: offers rules of egress, which never open these IPv4 networks",
  },
  egressNameServers: {
    flag: "egress-name-servers",
    environment: "SANDBOX_MCP_EGRESS_NAME_SERVERS",
    schema: addressList,
    help: "engine kubernetes: name servers that sandboxes with rules of egress reach",
  },
  snapshotRegistry: {
    flag: "snapshot-registry",
    environment: "SANDBOX_MCP_SNAPSHOT_REGISTRY",
    schema: registryPlace,
    help: "engine kubernetes: offers snapshots and forks, as images of this HOST/REPOSITORY",
  },
  snapshotRegistryLogin: {
    flag: "snapshot-registry-login",
    environment: "SANDBOX_MCP_SNAPSHOT_REGISTRY_LOGIN",
    schema: path,
    help: "engine kubernetes: a config.json of docker with the logins for that registry and those of templates",
  },
  volumeClass: {
    flag: "volume-class",
    environment: "SANDBOX_MCP_VOLUME_CLASS",
    schema: z
      .string()
      .regex(/^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/, "expected the name of a storage class"),
    help: "engine kubernetes: offers volumes, as claims of this storage class",
  },
  volumeAccess: {
    flag: "volume-access",
    environment: "SANDBOX_MCP_VOLUME_ACCESS",
    schema: oneOf(["ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"]),
    help: "engine kubernetes: access mode of the claims of volumes",
  },
  kubernetesUrl: {
    flag: "kubernetes-url",
    environment: "SANDBOX_MCP_KUBERNETES_URL",
    schema: webUrl,
    help: "API server; by default that of the Pod, outside of one the address of `kubectl proxy`",
  },
  kubernetesNamespace: {
    flag: "kubernetes-namespace",
    environment: "SANDBOX_MCP_KUBERNETES_NAMESPACE",
    schema: z.string().regex(/^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/, "expected a namespace"),
    help: "namespace of the Pods; by default that of the service account",
  },
  kubernetesAccount: {
    flag: "kubernetes-account",
    environment: "SANDBOX_MCP_KUBERNETES_ACCOUNT",
    schema: path,
    help: "directory of the service account: token, ca.crt and namespace",
  },
} as const satisfies Record<string, Setting>;
