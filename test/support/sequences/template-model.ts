/** Templates that clients share by their names: what their tags may name, and the builds of each. */

import { Register, type Moments, type OpenChange, type Span } from "./register.ts";

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
  readonly tags: readonly Tag[];
  readonly content: Content;
  /** Of its tags. */
  readonly changes: readonly OpenChange<string | undefined>[];
  /** The call that started it, where that was answered. */
  started: Span | undefined;
  /** The first call that started a build of the same tag after it, and so cancelled this one. */
  cancelled: { readonly by: string; readonly at: number } | undefined;
  /** Nothing changes after that. */
  end: "ready" | "error" | "removed" | undefined;
}

/** A build that was started cancels those of the same tags whose start was over before. */
export function cancelOlder(builds: readonly BuildModel[], build: BuildModel): void {
  const { templateId, tags, started } = build;
  if (started === undefined) return;
  for (const one of builds) {
    const isSame = one.templateId === templateId && one.tags.some((tag) => tags.includes(tag));
    const isOlder = one.started !== undefined && one.started.endedAt < started.beganAt;
    if (isSame && isOlder) one.cancelled ??= { by: build.buildId, at: started.endedAt };
  }
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
