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
    schema: podImages,
    help: "engine kubernetes: templates and their images, base=IMAGE,NAME=IMAGE",
  },
  podTemplate: {
    flag: "pod-template",
    schema: path,
    help: "engine kubernetes: a file in YAML or JSON with placement, labels and requests of Pods",
  },
  egressDenied: {
    flag: "egress-denied",
    schema: networkList,
    help: "engine kubernetes: offers rules of egress, which never open these IPv4 networks",
  },
  egressNameServers: {
    flag: "egress-name-servers",
    schema: addressList,
    help: "engine kubernetes: name servers that sandboxes with rules of egress reach",
  },
  snapshotRegistry: {
    flag: "snapshot-registry",
    schema: registryPlace,
    help: "engine kubernetes: offers snapshots, forks and pauses, as images of this HOST/REPOSITORY",
  },
  snapshotRegistryLogin: {
    flag: "snapshot-registry-login",
    schema: path,
    help: "engine kubernetes: a config.json of docker with the logins for that registry and those of templates",
  },
  volumeClass: {
    flag: "volume-class",
    schema: z
      .string()
      .regex(/^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/, "expected the name of a storage class"),
    help: "engine kubernetes: offers volumes, as claims of this storage class",
  },
  volumeAccess: {
    flag: "volume-access",
    schema: oneOf(["ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"]),
    help: "engine kubernetes: access mode of the claims of volumes",
  },
  kubernetesUrl: {
    flag: "kubernetes-url",
    schema: webUrl,
    help: "engine kubernetes: API server; by default that of the Pod, outside of one give the address of `kubectl proxy`",
  },
  kubernetesNamespace: {
    flag: "kubernetes-namespace",
    schema: z.string().regex(/^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/, "expected a namespace"),
    help: "engine kubernetes: namespace of the Pods; by default that of the service account",
  },
  kubernetesAccount: {
    flag: "kubernetes-account",
    schema: path,
    help: "engine kubernetes: directory of the service account: token, ca.crt and namespace",
  },
} as const satisfies Record<string, Setting>;
