/** What one watch believes of its tree, and the changes that it has to tell. */

import type { EventType } from "../../gen/filesystem/filesystem_pb.ts";
import { Directory } from "./directory.ts";
import type { WatchBudget } from "./watch-budget.ts";

/** A change to tell; the name is relative to the root, a byte in each character. */
export interface Told {
  readonly name: string;
  readonly type: EventType;
}

export interface TreeOptions {
  readonly isRecursive: boolean;
  readonly budget: WatchBudget;
  /** Gives up watches of the kernel. */
  readonly release: (wds: readonly number[]) => void;
}

/** One directory seen at two places, as by a bind mount, is watched at one of them. */
const MAX_REPLACED = 3;

export class Tree {
  readonly root = new Directory(undefined, "", false);
  /** Directories to watch and to list, parents first. */
  readonly pending = new Set<Directory>([this.root]);
  /** Whether the root is gone, which ends the watch. */
  hasEnded = false;
  readonly isRecursive: boolean;
  readonly budget: WatchBudget;
  readonly #release: TreeOptions["release"];
  readonly #watched = new Map<number, Directory>();
  #told: Told[] = [];

  constructor({ isRecursive, budget, release }: TreeOptions) {
    this.isRecursive = isRecursive;
    this.budget = budget;
    this.#release = release;
  }

  /** Notes a change of an entry; "." is the root itself. */
  tell(directory: Directory, name: string, type: EventType): void {
    this.#told.push({ name: directory.pathOf(name), type });
  }

  /** Takes the changes to tell. */
  takeTold(): readonly Told[] {
    const told = this.#told;
    this.#told = [];
    return told;
  }

  find(wd: number): Directory | undefined {
    return this.#watched.get(wd);
  }

  /** Adds an entry, in the place of another of its name. @throws SandboxError resource_exhausted */
  enter(directory: Directory, name: string, child: Directory | null): void {
    this.forget(directory, name);
    this.budget.reserve("entries");
    directory.children.set(name, child);
    if (child !== null) this.pending.add(child);
  }

  /** Takes an entry out with all below it; false when there was none. */
  forget(directory: Directory, name: string): boolean {
    const child = this.take(directory, name);
    if (child instanceof Directory) this.drop(child);
    return child !== undefined;
  }

  /** Takes an entry out and leaves what is below it as it was. */
  take(directory: Directory, name: string): Directory | null | undefined {
    const child = directory.children.get(name);
    directory.unconfirmed.delete(name);
    if (directory.children.delete(name)) this.budget.release("entries", 1);
    return child;
  }

  /** Forgets a directory and all below it. */
  drop(top: Directory): void {
    const wds: number[] = [];
    for (const directory of top.tree()) {
      directory.isAttached = false;
      this.pending.delete(directory);
      this.budget.release("entries", directory.children.size);
      if (directory.wd !== undefined) wds.push(directory.wd);
      this.unwatch(directory);
    }
    this.#release(wds);
  }

  /** Notes that the kernel watches a directory. @throws SandboxError resource_exhausted */
  watch(directory: Directory, wd: number): void {
    if (directory.wd === wd) return;
    const owner = this.find(wd);
    if (owner !== undefined) {
      this.unwatch(owner);
      owner.replaced += 1;
      if (owner.replaced <= MAX_REPLACED) this.pending.add(owner);
    }
    if (directory.wd !== undefined) {
      // Another directory is at its place, so nothing below is what was known.
      this.#release([directory.wd]);
      this.unwatch(directory);
      for (const below of directory.tree()) if (below !== directory) this.pending.add(below);
    }
    this.budget.reserve("directories");
    directory.wd = wd;
    this.#watched.set(wd, directory);
  }

  /** Notes that the kernel does not watch a directory any more. */
  unwatch(directory: Directory): void {
    if (directory.wd === undefined) return;
    this.#watched.delete(directory.wd);
    directory.wd = undefined;
    this.budget.release("directories", 1);
  }

  /** Gives up a watch that is of no directory of the tree. */
  releaseUnknown(wd: number): void {
    if (wd > 0 && !this.#watched.has(wd)) this.#release([wd]);
  }

  /** Has every directory looked at again. */
  suspectAll(): void {
    for (const directory of this.root.tree()) this.pending.add(directory);
  }

  /** The kernel holds no watch of the tree any more. */
  loseWatches(): void {
    for (const directory of this.#watched.values()) this.unwatch(directory);
    this.suspectAll();
  }
}
