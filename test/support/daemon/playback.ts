/** A reader of the events of a watch, who believes what they say and nothing else. */

import { EventType, type FilesystemEvent } from "../../../src/gen/filesystem/filesystem_pb.ts";

/** The names that a reader of events believes in. */
export class Playback {
  readonly names = new Set<string>();
  /** What was below a directory that was renamed: the next event says where it is now. */
  #moved: readonly string[] = [];

  add({ name, type }: Pick<FilesystemEvent, "name" | "type">): void {
    const moved = this.#moved;
    this.#moved = [];
    if (type === EventType.REMOVE || type === EventType.RENAME) {
      const below = [...this.names].filter((other) => other.startsWith(`${name}/`));
      for (const gone of [name, ...below]) this.names.delete(gone);
      if (type === EventType.RENAME) this.#moved = below.map((other) => other.slice(name.length));
    } else this.names.add(name);
    if (type === EventType.CREATE) for (const rest of moved) this.names.add(name + rest);
  }
}
