/** Reads and writes files of an image's tree by their paths, as a program inside would. */

import type { Contents } from "./contents.ts";
import { treeFault, type Metadata, type Tree } from "./tree.ts";

export interface Owner {
  readonly uid: number;
  readonly gid: number;
}

export interface WriteOptions extends Partial<Owner> {
  /** Default 0644. */
  readonly mode?: number;
}

export interface TreeWriter {
  /** Each byte as one character; undefined where no file of at most 1 MiB is. */
  read(path: string): Promise<string | undefined>;
  isFile(path: string): boolean;
  isProgram(path: string): boolean;
  /** Whether a directory is there, links followed, upon which a sandbox mounts nothing. */
  isSeenDirectory(path: string): boolean;
  /** The mode and owner of what is there, links followed. */
  facts(path: string): Metadata | undefined;
  /** Writes a file anew; a link at the end of the path is replaced, directories are made. */
  write(path: string, data: string | Uint8Array, options?: WriteOptions): Promise<void>;
  /** Makes a directory where none is. */
  makeDirectory(path: string, mode: number, owner?: Owner): void;
  /** The names in a directory. */
  list(path: string): string[];
}

const MOUNTED_PATTERN = /^(?:dev|proc|run|sys)(?:\/|$)/;

export function createTreeWriter(tree: Tree, contents: Contents): TreeWriter {
  const nodeAt = (path: string) => tree.find(path)?.node;

  /** The path without links on the way; its directories are made. */
  function placeOf(path: string): string {
    const at = path.lastIndexOf("/");
    const parent = path.slice(0, at);
    const name = path.slice(at + 1);
    return `${parent === "" ? "" : folderAt(parent, 0o755)}/${name}`;
  }

  function folderAt(path: string, mode: number, owner: Owner = { uid: 0, gid: 0 }): string {
    const found = tree.find(path);
    if (found?.node.kind === "directory") return found.path;
    if (found !== undefined) treeFault(path, "is no directory");
    const place = placeOf(path);
    tree.addDirectory(place, { ...owner, mode, mtimeSeconds: 0, attributes: [] });
    return place;
  }

  return {
    async read(path) {
      const node = nodeAt(path);
      return node?.kind === "file" ? contents.read(node.content) : undefined;
    },
    isFile: (path) => nodeAt(path)?.kind === "file",
    isProgram(path) {
      const node = nodeAt(path);
      return node?.kind === "file" && (node.meta.mode & 0o111) !== 0;
    },
    isSeenDirectory(path) {
      const found = tree.find(path);
      return found?.node.kind === "directory" && !MOUNTED_PATTERN.test(found.path);
    },
    facts: (path) => nodeAt(path)?.meta,
    async write(path, data, { mode = 0o644, uid = 0, gid = 0 } = {}) {
      const meta = { mode, uid, gid, mtimeSeconds: 0, attributes: [] };
      const bytes = typeof data === "string" ? Buffer.from(data, "latin1") : data;
      tree.addFile(placeOf(path), meta, await contents.add(bytes));
    },
    makeDirectory: (path, mode, owner) => void folderAt(path, mode, owner),
    list(path) {
      const node = nodeAt(path);
      return node?.kind === "directory" ? [...node.children.keys()] : [];
    },
  };
}
