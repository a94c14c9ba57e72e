/**
 * The interface of OCI images: an image of a registry or a file becomes one read-only layer of the
 * engine, with what a sandbox needs, and the facts of its configuration.
 *
 * The functions are `findImage` and `fetchImage` (`pull.ts`), `unpackImage` (`unpack.ts`) and
 * `addImage` (`add-image.ts`), which calls them and is what a build and the command line call. It
 * shares the lock `image` of the home from before the layer is written until `commit` has returned: a
 * layer whose name starts with `image-` and that no row of the store names is removed by the next
 * start or `gc`, which take the lock alone (`image-locks.ts`).
 * The layer is named for the digest of the image, so an image that is there is not fetched again.
 */

import type { Layer } from "../engine/engine.ts";

/** What a request or a person gives a registry. Never in an argument, a log line or a file. */
export interface RegistryCredentials {
  readonly username: string;
  readonly password: string;
}

/** One rule of `--registry-mirror`: what begins with `from` is fetched from `to` instead. */
export interface RegistryMirror {
  /** A registry, or a registry and the beginning of a path: `docker.io`, `docker.io/library`. */
  readonly from: string;
  /** The same; `http://` before it means without TLS. */
  readonly to: string;
}

/**
 * skopeo connects from the machine's network, its loopback included, unless a request named the
 * image: then by a proxy of its own alone (`registry-proxy.ts`).
 */
export interface PullOptions {
  /** The home directory; blobs are kept below its `layers` until they are unpacked. */
  readonly home: string;
  readonly credentials?: RegistryCredentials | undefined;
  /**
   * Login files of docker and podman, tried in this order where `credentials` are not given. They
   * belong to who runs the service: a request of another team gets none.
   */
  readonly authFiles?: readonly string[] | undefined;
  readonly mirrors?: readonly RegistryMirror[] | undefined;
  /** Whether `oci:DIR` and `docker-archive:FILE` may name files of this machine; default false. */
  readonly allowsFiles?: boolean | undefined;
  /**
   * Whether a request named the image: then its registry must be one of the internet, or one to
   * which a mirror rule leads; default false.
   */
  readonly isOfRequest?: boolean | undefined;
  /** Where the perl programs lie, as `EngineOptions` has it; needed where a request named the image. */
  readonly perlDirectory?: string | undefined;
  /** Given by tests: name servers in the place of the machine's, where a request named the image. */
  readonly nameServers?: readonly string[] | undefined;
  /** Most bytes of all blobs of the image, as they are transferred; default 8 GiB. */
  readonly maxBytes?: number | undefined;
  readonly signal: AbortSignal;
  /** A line for people, some times a second at most; text of the registry in it is quoted. */
  onProgress?(message: string): void;
  /**
   * Bytes on the disk, twice a second while the image is fetched; the total where its manifest has
   * it, which an index has not.
   */
  onFetched?(bytes: number, totalBytes: number | undefined): void;
}

/** An image as an OCI layout on this machine's disk; disposing it removes the directory. */
export interface PulledImage extends AsyncDisposable {
  readonly layout: string;
  /** `registry/repository@sha256:…` of what was fetched, or the digest alone for a file. */
  readonly pinned: string;
  /** Of the manifest for this machine's platform, in the layout. */
  readonly digest: string;
}

/** Bounds of what an image may become; `ImageLimits` are upper bounds that refuse the image. */
export interface ImageLimits {
  /** Most bytes of content of all files of all layers; default 20 GiB. */
  readonly maxBytes: number;
  /** Most entries of all layers; default 500,000. */
  readonly maxEntries: number;
  /** Most bytes that one byte of a compressed layer may become, beyond the first 64 MiB; default 200. */
  readonly maxRatio: number;
}

/** What of an image's configuration a template keeps. All of it is text of a stranger, bounded. */
export interface ImageConfig {
  /** In order; a later one of the same name counts. At most 1,024, 128 KiB in all. */
  readonly env: readonly { readonly name: string; readonly value: string }[];
  /** Absolute; undefined where the image names none or `/`. */
  readonly workdir?: string | undefined;
  /** The name of an account of the image; undefined where it names none or an id without a name. */
  readonly user?: string | undefined;
  readonly entrypoint: readonly string[];
  readonly cmd: readonly string[];
  /** Numbers of TCP ports, ascending. */
  readonly exposedPorts: readonly number[];
  /** As the image has them, at most 256. */
  readonly labels: readonly { readonly name: string; readonly value: string }[];
}

/** The family of the image's system, which decides how a package is installed in it. */
export type ImageFamily = "debian" | "alpine" | "fedora" | "other";

export interface UnpackedImage {
  readonly config: ImageConfig;
  readonly digest: string;
  /** Bytes of content that the layer has. */
  readonly bytes: number;
  readonly entries: number;
  /** What was left out, each a sentence for people: devices, attributes that have no meaning here. */
  readonly notes: readonly string[];
  readonly family: ImageFamily;
  /** Packages that the image lacks and a stand-in was given for: `bash`, `sudo`, `ca-certificates`. */
  readonly standIns: readonly string[];
  /** A command for a shell of root in a sandbox with a network that installs those packages. */
  readonly installCommand?: string | undefined;
  /** Absolute, the home of the image's user or else of `user`; `/` where that can be no directory. */
  readonly home: string;
}

export interface UnpackOptions {
  readonly limits?: Partial<ImageLimits> | undefined;
  /** Where the perl programs lie, as `EngineOptions` has it. */
  readonly perlDirectory: string;
  readonly signal: AbortSignal;
  onProgress?(message: string): void;
}

/** An image as a layer, ready to be the lowest one of a template. */
export interface ImageLayer extends UnpackedImage {
  /** To be stored by `templates.toStored(layer)` in a row of the store. */
  readonly layer: Layer;
  readonly pinned: string;
  /** Of a new sandbox's processes: the image's user if its name is known, else `user`. */
  readonly defaultUser: string;
  /** The image's work directory, else the home of that user. */
  readonly defaultWorkdir: string;
}

export type AddImageOptions = PullOptions & UnpackOptions;
