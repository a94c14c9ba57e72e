/** The tree of directories that one watch believes in. Names have a byte in each character. */

/** One directory; known by its watch of the kernel, wherever it is moved. */
export class Directory {
  parent: Directory | undefined;
  name: string;
  /** The kernel's watch of it; undefined until there is one, or where there cannot be one. */
  wd: number | undefined;
  /** Whether what a listing finds in it is news. */
  isReported: boolean;
  /** Whether it still belongs to the tree. */
  isAttached = true;
  /** How often its watch turned out to be that of another directory. */
  replaced = 0;
  /** Entries by name; null for what is not entered. */
  readonly children = new Map<string, Directory | null>();
  /** Entries that a listing found, whose own events may still come. */
  readonly unconfirmed = new Set<string>();

  constructor(parent: Directory | undefined, name: string, isReported: boolean) {
    this.parent = parent;
    this.name = name;
    this.isReported = isReported;
  }

  /** Relative to the root; "" for the root. */
  get path(): string {
    return this.parent === undefined ? "" : this.parent.pathOf(this.name);
  }

  pathOf(name: string): string {
    const { path } = this;
    return path === "" ? name : `${path}/${name}`;
  }

  /** The entries that lead to it, by the watch of their directory: `wd/name`. */
  get chain(): string[] {
    if (this.parent === undefined) return [];
    return [...this.parent.chain, `${this.parent.wd}/${this.name}`];
  }

  isWithin(other: Directory): boolean {
    return this === other || (this.parent?.isWithin(other) ?? false);
  }

  /** This directory and all below it. */
  *tree(): Generator<Directory> {
    yield this;
    for (const child of this.children.values()) if (child !== null) yield* child.tree();
  }
}
