/** References of images as people write them, and the mirrors that stand in for their registries. */

import { resolve } from "node:path";
import { SandboxError } from "../common/errors.ts";
import { quoteUntrusted } from "../common/untrusted-text.ts";
import type { RegistryMirror } from "./images.ts";

const MAX_REFERENCE_BYTES = 1_024;
const DEFAULT_REGISTRY = "docker.io";
/** Other names of the same registry: an older one, and the host that clients ask for its images. */
const OTHER_DEFAULTS: ReadonlySet<string> = new Set(["index.docker.io", "registry-1.docker.io"]);
const DEFAULT_OWNER = "library";

const HOST = String.raw`(?:localhost|[a-z0-9-]+(?:\.[a-z0-9-]+)+|[a-z0-9-]+(?=:[0-9])|\[[0-9a-f:]+\])(?::[0-9]{1,5})?`;
const NAME = String.raw`[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*`;
const REPOSITORY = String.raw`${NAME}(?:/${NAME})*`;
const TAG = String.raw`[\w][\w.-]{0,127}`;
const DIGEST = "sha256:[0-9a-f]{64}";
const PATTERN = new RegExp(
  `^(?:(?<host>${HOST})/)?(?<repository>${REPOSITORY})(?::(?<tag>${TAG}))?(?:@(?<digest>${DIGEST}))?$`,
  "i",
);

/** Where an image is, of a registry or in a file. */
export type ImageReference =
  | {
      readonly kind: "registry";
      readonly host: string;
      readonly repository: string;
      readonly tag: string;
      readonly digest: string | undefined;
    }
  | { readonly kind: "oci" | "docker-archive"; readonly path: string };

/**
 * Reads `debian:12`, `docker://ghcr.io/owner/name@sha256:…`, `oci:DIR` and `docker-archive:FILE`.
 * @throws SandboxError invalid_argument
 */
export function parseReference(text: string): ImageReference {
  const file = /^(?<kind>oci|docker-archive):(?!\/\/)(?<path>.+)$/s.exec(text)?.groups;
  if (file !== undefined) {
    const path = file["path"] ?? "";
    if (path.includes("\0") || path.length > MAX_REFERENCE_BYTES) badReference(text);
    return { kind: file["kind"] === "oci" ? "oci" : "docker-archive", path };
  }
  const bare = text.replace(/^docker:\/\//, "");
  const parts = bare.length > MAX_REFERENCE_BYTES ? undefined : PATTERN.exec(bare)?.groups;
  if (parts === undefined) badReference(text);
  const host = toRegistry(parts["host"]);
  const named = parts["repository"] ?? "";
  if (named !== named.toLowerCase()) badReference(text);
  const isShort = host === DEFAULT_REGISTRY && !named.includes("/");
  return {
    kind: "registry",
    host,
    repository: isShort ? `${DEFAULT_OWNER}/${named}` : named,
    tag: parts["tag"] ?? "latest",
    digest: parts["digest"],
  };
}

/** In one spelling, by which rules of mirrors and logins are found. */
function toRegistry(host = DEFAULT_REGISTRY): string {
  const known = host.toLowerCase();
  return OTHER_DEFAULTS.has(known) ? DEFAULT_REGISTRY : known;
}

/** The registry, or the part of one, of a login as the files of docker and podman name it. */
export function toLoginPlace(key: string): string {
  const [host = "", ...rest] = key.replace(/^https?:\/\//, "").split("/");
  const path = rest.join("/").replace(/^v[12]\/?$/, "");
  const place = OTHER_DEFAULTS.has(host) ? DEFAULT_REGISTRY : host;
  return path === "" ? place : `${place}/${path}`;
}

function badReference(text: string): never {
  throw new SandboxError("invalid_argument", `no image is called ${quoteUntrusted(text)}`, {
    hint: "name one as debian:12, ghcr.io/owner/name:tag or name@sha256:…",
  });
}

/** What skopeo is given, and how it may speak to it. */
export interface Source {
  readonly address: string;
  /** The registry that is asked; undefined for a file. */
  readonly host: string | undefined;
  readonly isPlain: boolean;
  /** `registry/repository`, without tag. */
  readonly name: string;
  /** Whether a rule of a mirror leads there. */
  readonly isMirrored: boolean;
}

/** The longest rule that fits decides; this machine itself is spoken to without TLS, as docker does. */
export function toSource(
  reference: ImageReference,
  mirrors: readonly RegistryMirror[],
  digest?: string,
): Source {
  if (reference.kind !== "registry") {
    const { kind, path } = reference;
    return {
      // Skopeo runs in a directory of its own.
      address: `${kind}:${resolve(path)}`,
      host: undefined,
      isPlain: false,
      name: "",
      isMirrored: false,
    };
  }
  const name = `${reference.host}/${reference.repository}`;
  const fits = mirrors.filter(({ from }) => name === from || name.startsWith(`${from}/`));
  const [rule] = fits.toSorted((left, right) => right.from.length - left.from.length);
  const target = rule === undefined ? name : rule.to + name.slice(rule.from.length);
  const bare = target.replace(/^https?:\/\//, "");
  const host = bare.split("/", 1)[0] ?? "";
  const pin = digest ?? reference.digest;
  return {
    // A tag beside a digest says nothing more, and skopeo takes only one of them.
    address: `docker://${bare}${pin === undefined ? `:${reference.tag}` : `@${pin}`}`,
    host,
    isPlain: target.startsWith("http://") || isOwnMachine(host),
    name,
    isMirrored: rule !== undefined,
  };
}

function isOwnMachine(host: string): boolean {
  return /^(?:localhost|127(?:\.[0-9]{1,3}){3}|\[::1\])(?::[0-9]+)?$/.test(host);
}

/** One rule of `--registry-mirror`. */
export const MIRROR_PATTERN: RegExp = new RegExp(
  `^${HOST}(?:/${REPOSITORY})?=(?:https?://)?${HOST}(?:/${REPOSITORY})?$`,
);

/** A rule of that form: what stands before the only `=`, and what behind it. */
export function parseMirror(rule: string): RegistryMirror {
  const [from = "", to = ""] = rule.split("=");
  const [host, ...repository] = from.split("/");
  return { from: [toRegistry(host), ...repository].join("/"), to };
}

/** The registry that a rule leads to. */
export interface MirrorPlace {
  /** In lower case, an address of IPv6 without brackets. */
  readonly host: string;
  /** Undefined for the usual one. */
  readonly port: number | undefined;
}

/** Where the registry of a rule is, of what the rule has behind `=`. */
export function toMirrorPlace(to: string): MirrorPlace {
  const [authority = ""] = to.replace(/^https?:\/\//, "").split("/", 1);
  const { host = "", port } = /^(?<host>.*?)(?::(?<port>[0-9]+))?$/.exec(authority)?.groups ?? {};
  const bare = host.toLowerCase().replace(/^\[(.*)\]$/, "$1");
  return { host: bare, port: port === undefined ? undefined : Number(port) };
}
