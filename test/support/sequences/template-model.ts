/** Templates that clients share by their names: what their tags may name, and the builds of each. */

import { Register, type Moments, type OpenChange } from "./register.ts";

export const NAMES = ["t0", "t1", "t2"] as const;
export const TAGS = ["default", "a", "b"] as const;

export type Name = (typeof NAMES)[number];
export type Tag = (typeof TAGS)[number];

/** What a sandbox of a build has. */
export interface Content {
  /** Value of the variable MARK. */
  readonly mark: string;
  /** Content of two files; undefined where the plan says nothing of them. */
  readonly written: string | undefined;
  readonly copied: string | undefined;
}

export interface BuildModel {
  readonly buildId: string;
  readonly templateId: string;
  readonly name: Name;
  readonly content: Content;
  /** Of its tags. */
  readonly changes: readonly OpenChange<string | undefined>[];
  /** Nothing changes after that. */
  end: "ready" | "error" | "removed" | undefined;
}

export class TemplateModel {
  /** By tag, the id of the build. */
  readonly tags: ReadonlyMap<Tag, Register<string | undefined>>;
  /** Calls that removed it, or may have. */
  removals = 0;
  /** Sandboxes that may be of it. */
  sandboxes = 0;

  constructor(moments: Moments) {
    const first: string | undefined = undefined;
    this.tags = new Map(
      TAGS.map((tag) => [tag, new Register<string | undefined>(moments, first)] as const),
    );
  }

  register(tag: Tag): Register<string | undefined> {
    const register = this.tags.get(tag);
    if (register === undefined) throw new Error(`no register of ${tag}`);
    return register;
  }
}
