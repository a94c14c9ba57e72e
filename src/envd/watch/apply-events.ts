/** What an event of the kernel means for a tree. */

import { EventType } from "../../gen/filesystem/filesystem_pb.ts";
import { isStagedName } from "../files/staging.ts";
import { Directory } from "./directory.ts";
import { EventMask, type KernelEvent } from "./kernel-event.ts";
import type { Tree } from "./tree.ts";

/** Applies events in the order in which the kernel told them. */
export class EventApplier {
  readonly #tree: Tree;
  /** Where the last event put an entry in the place of another. */
  #overwritten: { readonly directory: Directory; readonly name: string } | undefined;

  constructor(tree: Tree) {
    this.#tree = tree;
  }

  /** Any event but a move away; a move here is one from outside the tree. */
  apply(event: KernelEvent): void {
    const { mask, name } = event;
    const directory = this.#tree.find(event.wd);
    // A directory's news of itself stand between those of two entries that change places.
    if (name !== "") this.#overwritten = undefined;
    if (directory === undefined || isStagedName(name)) return;
    if ((mask & EventMask.ignored) !== 0) {
      this.#tree.unwatch(directory);
      // Where it is not gone, the end of another's watch met its beginning.
      this.#tree.pending.add(directory);
    } else if (name === "") {
      if (directory === this.#tree.root) this.#applyToRoot(mask);
    } else if ((mask & (EventMask.create | EventMask.movedTo)) !== 0) {
      this.#come(directory, event);
    } else if ((mask & EventMask.delete) !== 0) {
      this.#go(directory, name, EventType.REMOVE);
    } else if (directory.children.has(name)) {
      const isWritten = (mask & EventMask.modify) !== 0;
      this.#tree.tell(directory, name, isWritten ? EventType.WRITE : EventType.CHMOD);
    }
  }

  /** A move away, together with its other half where that is in the tree. */
  move(from: KernelEvent, to: KernelEvent | undefined): void {
    const source = this.#tree.find(from.wd);
    const target = to && this.#tree.find(to.wd);
    if (isStagedName(from.name)) {
      if (target !== undefined && to !== undefined) this.#publish(target, to.name);
      return;
    }
    const child = source?.children.get(from.name);
    if (source !== undefined) this.#noticeExchange(source, from.name);
    const isDirectory = source !== undefined && child instanceof Directory;
    if (isDirectory && target !== undefined && to !== undefined) {
      const isListed = target.unconfirmed.has(to.name);
      if (!isListed && !target.isWithin(child)) {
        this.#follow(child, { source, target, name: to.name });
        return;
      }
    }
    if (source !== undefined) this.#go(source, from.name, EventType.RENAME);
    // A reader moves what it knows below a renamed directory to the name that is told next.
    if (isDirectory) this.#tree.tell(source, from.name, EventType.REMOVE);
    // A target that lay below what went shows events of different moments: a listing tells.
    if (to !== undefined && target?.isAttached) this.#come(target, to);
  }

  /**
   * Moves a directory with all that is known below it, which the next listing compares with what is
   * there: its watch may be lost.
   */
  #follow(
    child: Directory,
    way: { readonly source: Directory; readonly target: Directory; readonly name: string },
  ): void {
    const { source, target, name } = way;
    this.#tree.take(source, child.name);
    this.#tree.tell(source, child.name, EventType.RENAME);
    this.#noteOverwritten(target, name);
    child.parent = target;
    child.name = name;
    child.isReported = true;
    // That its new path leads to it is checked with the next listing: it may have moved on.
    this.#tree.enter(target, name, child);
    this.#tree.tell(target, name, EventType.CREATE);
  }

  /** An upload that gets its name is told as a file that is written. */
  #publish(directory: Directory, name: string): void {
    if (!directory.children.has(name)) {
      this.#tree.enter(directory, name, null);
      this.#tree.tell(directory, name, EventType.CREATE);
    }
    this.#tree.tell(directory, name, EventType.WRITE);
  }

  #applyToRoot(mask: number): void {
    const isMoved = (mask & EventMask.moveSelf) !== 0;
    if (!isMoved && (mask & EventMask.deleteSelf) === 0) return;
    this.#tree.tell(this.#tree.root, ".", isMoved ? EventType.RENAME : EventType.REMOVE);
    this.#tree.hasEnded = true;
  }

  #come(directory: Directory, { name, mask }: KernelEvent): void {
    const isEntered = (mask & EventMask.isDirectory) !== 0 && this.#tree.isRecursive;
    const known = directory.children.get(name);
    const isListed = directory.unconfirmed.delete(name);
    if (isListed && known instanceof Directory === isEntered) return;
    this.#noteOverwritten(directory, name);
    this.#tree.enter(directory, name, isEntered ? new Directory(directory, name, true) : null);
    this.#tree.tell(directory, name, EventType.CREATE);
  }

  #go(directory: Directory, name: string, type: EventType): void {
    if (this.#tree.forget(directory, name)) this.#tree.tell(directory, name, type);
  }

  #noteOverwritten(directory: Directory, name: string): void {
    this.#overwritten = directory.children.has(name) ? { directory, name } : undefined;
  }

  /** When two entries change places, the second move takes away what the first one brought. */
  #noticeExchange(directory: Directory, name: string): void {
    const last = this.#overwritten;
    this.#overwritten = undefined;
    if (last?.directory === directory && last.name === name) this.#tree.pending.add(directory);
  }
}
