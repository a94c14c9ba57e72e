/** What the files of a sandbox may hold while calls that change them are cut off. */

/** Undefined for a file that is not there. */
export type Content = string | undefined;

/** What a call that was cut off does, it does within this time. */
const LATE_MS = 15_000;

export class FileModel {
  readonly #contents = new Map<string, ReadonlySet<Content>>();
  #late: { readonly path: string; readonly content: Content; readonly untilMs: number }[] = [];

  /** What a read may find. */
  at(path: string): ReadonlySet<Content> {
    return this.#contents.get(path) ?? new Set([undefined]);
  }

  /** A call makes one of these of a file; unless it was answered, sooner, later or never. */
  change(path: string, contents: readonly Content[], isAnswered: boolean): void {
    const before = isAnswered ? [] : this.at(path);
    this.#contents.set(path, new Set([...before, ...contents, ...this.#lateAt(path)]));
    if (isAnswered) return;
    const untilMs = performance.now() + LATE_MS;
    this.#late.push(...contents.map((content) => ({ path, content, untilMs })));
  }

  #lateAt(path: string): readonly Content[] {
    this.#late = this.#late.filter(({ untilMs }) => untilMs > performance.now());
    return this.#late.filter((one) => one.path === path).map(({ content }) => content);
  }
}
