/**
 * The tree of an image in memory. Layers are applied to it and nothing else: every path is taken
 * apart and followed here, from the root and through directories alone, so what a layer names cannot
 * lie anywhere but in this tree. Names are bytes, each as one character.
 */

import { SandboxError } from "../common/errors.ts";
import { quoteUntrusted } from "../common/untrusted-text.ts";

export interface Metadata {
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  readonly mtimeSeconds: number;
  readonly attributes: readonly (readonly [name: string, value: Buffer])[];
}

/** A file is one object, under however many names. */
export interface FileNode {
  readonly kind: "file";
  readonly meta: Metadata;
  /** The layer that it came with; a later one hides it. */
  readonly layer: number;
  /** The number of its content. */
  readonly content: number;
}

export interface SymlinkNode {
  readonly kind: "symlink";
  readonly meta: Metadata;
  readonly layer: number;
  readonly target: string;
}

export interface DirectoryNode {
  readonly kind: "directory";
  meta: Metadata;
  layer: number;
  /** The last layer that put something into it or below it. */
  touched: number;
  readonly children: Map<string, TreeNode>;
}

export type TreeNode = FileNode | SymlinkNode | DirectoryNode;

/** The kernel's limit of a name, and of a path less what comes before it on this machine. */
const MAX_NAME_BYTES = 255;
export const MAX_PATH_BYTES = 3_900;
const MAX_TARGET_BYTES = 4_095;
const MAX_LINKS = 40;
const WHITEOUT = ".wh.";
const RESERVED = ".wh..wh.";
const OPAQUE = ".wh..wh..opq";

interface Place {
  readonly parents: readonly string[];
  /** Empty for the root. */
  readonly name: string;
}

/** A path of an archive; @throws SandboxError failed_precondition for one that is none of this tree. */
function parsePath(path: string): Place {
  if (path.length > MAX_PATH_BYTES) treeFault(path, "is too long");
  if (path.includes("\0")) treeFault(path, "has a NUL");
  const names = path.split("/").filter((name) => name !== "" && name !== ".");
  for (const name of names) {
    if (name === "..") treeFault(path, "leads out of the image");
    if (name.length > MAX_NAME_BYTES) treeFault(path, "has a name that is too long");
  }
  const name = names.pop() ?? "";
  return { parents: names, name };
}

/** @throws SandboxError failed_precondition */
export function treeFault(path: string, reason: string): never {
  const quoted = quoteUntrusted(JSON.stringify(path));
  throw new SandboxError("failed_precondition", `path ${quoted} of the image ${reason}`);
}

const IMPLIED: Metadata = { mode: 0o755, uid: 0, gid: 0, mtimeSeconds: 0, attributes: [] };

function newDirectory(layer: number, meta: Metadata = IMPLIED): DirectoryNode {
  return { kind: "directory", meta, layer, touched: layer, children: new Map() };
}

/** A tree to which layers are applied in order, the lowest first. */
export interface Tree {
  readonly root: DirectoryNode;
  /** How many nodes were made, also those that are gone. */
  readonly made: number;
  nextLayer(): void;
  addDirectory(path: string, meta: Metadata): void;
  addFile(path: string, meta: Metadata, content: number): void;
  addSymlink(path: string, meta: Metadata, target: string): void;
  /** A further name of a file or a link that is there. */
  addHardlink(path: string, target: string): void;
  /** Whether the path is a mark of a removal, which is applied. */
  applyWhiteout(path: string): boolean;
  /** What is at a path, following links within the tree; undefined where nothing is. */
  find(path: string): Found | undefined;
  /** The same; a link at the end is not followed. */
  look(path: string): TreeNode | undefined;
}

export function createTree(): Tree {
  const state: State = { root: newDirectory(0), layer: 0, made: 0, cleared: new Set() };
  const { root } = state;
  return {
    root,
    get made() {
      return state.made;
    },
    nextLayer() {
      state.layer += 1;
      state.cleared = new Set();
    },
    addDirectory(path, meta) {
      const { layer } = state;
      const place = parsePath(path);
      const known = place.name === "" ? root : parentOf(state, place).children.get(place.name);
      if (known?.kind !== "directory") return put(state, path, newDirectory(layer, meta));
      known.meta = meta;
      known.layer = layer;
      state.made += 1;
    },
    addFile: (path, meta, content) =>
      put(state, path, { kind: "file", meta, layer: state.layer, content }),
    addSymlink(path, meta, target) {
      if (target === "" || target.length > MAX_TARGET_BYTES || target.includes("\0")) {
        treeFault(path, "is a link to nothing that can be named");
      }
      put(state, path, { kind: "symlink", meta, layer: state.layer, target });
    },
    addHardlink: (path, target) => addHardlink(state, path, target),
    applyWhiteout: (path) => applyWhiteout(state, path),
    find: (path) => follow(root, path),
    look: (path) => lookUp(root, parsePath(path)),
  };
}

interface State {
  readonly root: DirectoryNode;
  layer: number;
  made: number;
  /** Directories of which the present layer has removed all that was below. */
  cleared: Set<DirectoryNode>;
}

/** What is no directory on the way gives way to one: links are never followed. */
function parentOf(state: State, { parents }: Place): DirectoryNode {
  const { layer } = state;
  let folder = state.root;
  for (const name of parents) {
    folder.touched = layer;
    const child = folder.children.get(name);
    if (child?.kind === "directory") folder = child;
    else {
      const next = newDirectory(layer);
      state.made += 1;
      folder.children.set(name, next);
      folder = next;
    }
  }
  folder.touched = layer;
  return folder;
}

function put(state: State, path: string, node: TreeNode): void {
  const place = parsePath(path);
  if (place.name === "") treeFault(path, "is the root and no directory");
  if (isMark(place)) treeFault(path, "has a name that is reserved");
  state.made += 1;
  parentOf(state, place).children.set(place.name, node);
}

function addHardlink(state: State, path: string, target: string): void {
  const { root, layer } = state;
  const node = lookUp(root, parsePath(target));
  if (node === undefined) treeFault(path, "is a further name of a file that is not there");
  if (node.kind === "directory") treeFault(path, "is a further name of a directory");
  if (samePlace(parsePath(path), parsePath(target))) return;
  put(state, path, node.layer === layer ? node : { ...node, layer });
}

function applyWhiteout(state: State, path: string): boolean {
  const place = parsePath(path);
  if (!isMark(place)) return false;
  if (place.parents.some((name) => name.startsWith(WHITEOUT))) {
    treeFault(path, "has a name that is reserved");
  }
  const folder = findFolder(state.root, place.parents);
  if (place.name === OPAQUE) {
    if (folder !== undefined) clear(folder, state);
    return true;
  }
  if (place.name.startsWith(RESERVED)) return true;
  const name = place.name.slice(WHITEOUT.length);
  if (name === "" || name === "." || name === "..") treeFault(path, "removes nothing that is");
  const child = folder?.children.get(name);
  if (folder !== undefined && child !== undefined) removeOlder({ folder, name, child }, state);
  return true;
}

function isMark({ parents, name }: Place): boolean {
  return [...parents, name].some((part) => part.startsWith(WHITEOUT));
}

function samePlace(left: Place, right: Place): boolean {
  return [...left.parents, left.name].join("/") === [...right.parents, right.name].join("/");
}

function findFolder(root: DirectoryNode, names: readonly string[]): DirectoryNode | undefined {
  let folder = root;
  for (const name of names) {
    const child = folder.children.get(name);
    if (child?.kind !== "directory") return undefined;
    folder = child;
  }
  return folder;
}

function lookUp(root: DirectoryNode, { parents, name }: Place): TreeNode | undefined {
  const folder = findFolder(root, parents);
  return name === "" ? folder : folder?.children.get(name);
}

type Clearing = Pick<State, "layer" | "cleared">;

/** Removes what layers below put there; a directory is gone through once in each layer. */
function clear(folder: DirectoryNode, clearing: Clearing): void {
  const open = [folder];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (clearing.cleared.has(next)) continue;
    clearing.cleared.add(next);
    for (const [name, child] of next.children) {
      if (isTouched(child, clearing.layer)) open.push(child);
      else if (child.layer < clearing.layer) next.children.delete(name);
    }
  }
}

/** Whether the present layer has put something into it. */
function isTouched(node: TreeNode, layer: number): node is DirectoryNode {
  return node.kind === "directory" && (node.touched === layer || node.layer === layer);
}

/** A mark removes what is below its layer, never what came with it. */
function removeOlder(
  entry: { readonly folder: DirectoryNode; readonly name: string; readonly child: TreeNode },
  clearing: Clearing,
): void {
  const { folder, name, child } = entry;
  if (isTouched(child, clearing.layer)) clear(child, clearing);
  else if (child.layer < clearing.layer) folder.children.delete(name);
}

export interface Found {
  readonly node: TreeNode;
  /** Without links on the way, relative to the root; empty for the root. */
  readonly path: string;
}

/** Follows links as a program with this root would. */
function follow(root: DirectoryNode, path: string): Found | undefined {
  const names = path.split("/").toReversed();
  const folders: DirectoryNode[] = [root];
  const taken: string[] = [];
  let links = 0;
  for (let name = names.pop(); name !== undefined; name = names.pop()) {
    const folder = folders.at(-1) ?? root;
    if (name === "" || name === ".") continue;
    if (name === "..") {
      if (folders.length > 1) folders.pop();
      taken.pop();
      continue;
    }
    const child = folder.children.get(name);
    if (child === undefined) return undefined;
    if (child.kind === "symlink") {
      links += 1;
      if (links > MAX_LINKS) return undefined;
      if (child.target.startsWith("/")) taken.length = 0;
      folders.length = taken.length + 1;
      names.push(...child.target.split("/").toReversed());
      continue;
    }
    taken.push(name);
    if (child.kind === "directory") folders.push(child);
    else return names.length === 0 ? { node: child, path: taken.join("/") } : undefined;
  }
  return { node: folders.at(-1) ?? root, path: taken.join("/") };
}
