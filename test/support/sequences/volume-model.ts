/** A volume as a test knows it: what its files may hold, who mounts it, whether it may be removed. */

import { Register, type Moments } from "./register.ts";

/** Undefined for a file that is not there. */
export type Content = string | undefined;

export const PATHS = ["/p0", "/p1", "/d/p0", "/d/p1"] as const;
export const FOLDER = "/d";

export class VolumeModel {
  readonly id: string;
  readonly token: string;
  readonly slot: number;
  /** Of files that clients of the volume write. */
  readonly files: ReadonlyMap<string, Register<Content>>;
  /** Files that a sandbox wrote, each once, by their paths. */
  readonly inside = new Map<string, string>();
  /** Calls that may remove it still, or did without an answer. */
  removals = 0;
  /** When it was surely gone. */
  goneAt = Number.POSITIVE_INFINITY;
  /** Sandboxes that surely have it, and calls that may give it to one. */
  mounts = 0;
  mayMount = 0;
  /** Grows with each change of the two. */
  mountChanges = 0;

  constructor(
    named: { readonly id: string; readonly token: string; readonly slot: number },
    moments: Moments,
  ) {
    this.id = named.id;
    this.token = named.token;
    this.slot = named.slot;
    const first: Content = undefined;
    this.files = new Map(PATHS.map((path) => [path, new Register<Content>(moments, first)]));
  }

  mayBeGone(): boolean {
    return this.removals > 0 || this.goneAt < Number.POSITIVE_INFINITY;
  }

  /** Files in and below a path. */
  below(path: string): readonly Register<Content>[] {
    return [...this.files].flatMap(([file, register]) =>
      file === path || file.startsWith(`${path}/`) ? [register] : [],
    );
  }
}
