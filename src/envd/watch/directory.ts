/** The tree of directories that one watch believes in. Names have a byte in each character. */

/**
 * One directory; known by its watch of the kernel, wherever it is moved. Programs decide how deep it
 * lies, so nothing here calls itself for each level.
 */
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
    const names: string[] = [];
    for (const { name, parent } of upwards(this)) if (parent !== undefined) names.push(name);
    return names.toReversed().join("/");
  }

  pathOf(name: string): string {
    const { path } = this;
    return path === "" ? name : `${path}/${name}`;
  }

  /** The entries that lead to it, by the watch of their directory: `wd/name`. */
  get chain(): string[] {
    const parts: string[] = [];
    for (const { name, parent } of upwards(this)) {
      if (parent !== undefined) parts.push(`${parent.wd}/${name}`);
    }
    return parts;
  }

  isWithin(other: Directory): boolean {
    for (const directory of upwards(this)) if (directory === other) return true;
    return false;
  }

  /** This directory and all below it, each before what is in it. */
  *tree(): Generator<Directory> {
    const left: Directory[] = [this];
    for (let next = left.pop(); next !== undefined; next = left.pop()) {
      yield next;
      const below = [...next.children.values()].filter((child) => child !== null);
      for (const child of below.toReversed()) left.push(child);
    }
  }
}

/** The directory, then each one that holds the one before. */
function* upwards(directory: Directory): Generator<Directory> {
  for (
    let current: Directory | undefined = directory;
    current !== undefined;
    current = current.parent
  ) {
    yield current;
  }
}
