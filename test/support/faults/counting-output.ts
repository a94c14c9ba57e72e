/** A program that counts on both of its streams, and what pages of its output must add up to. */

const LETTERS = { stdout: "o", stderr: "e" } as const;
/** Told in the place of output that may be missing. */
const MARK = /^--- \[… .* …\]$/;
export const EXIT_CODE = 7;

/** A command line; `tag` tells its lines from those of every other one. */
export function countingCommand(tag: string, count: number): string {
  const lines = Object.entries(LETTERS).map(
    ([stream, letter]) => `echo "${letter}${tag}-$i;" >/dev/${stream}`,
  );
  const pause = `(( i % ${Math.ceil(count / 40)} )) || sleep 0.0$((RANDOM % 9 + 1))`;
  return `for ((i = 1; i <= ${count}; i++)); do ${lines.join("; ")}; ${pause}; done; exit ${EXIT_CODE}`;
}

/** The text of each stream in pages that follow each other. */
export class ReadOutput {
  readonly #lines: Record<keyof typeof LETTERS, string[]> = { stdout: [], stderr: [] };

  /** A page that ends within a line shows a line end that the output does not have. */
  add(page: string): void {
    let lines: string[] | undefined;
    let isFirst = false;
    for (const line of page.split("\n").slice(1)) {
      const stream = /^--- (?:(stdout|stderr)|end)$/.exec(line);
      if (stream !== null) {
        lines = stream[1] === undefined ? undefined : this.#lines[toStream(stream[1])];
        isFirst = true;
        continue;
      }
      const last = lines?.at(-1);
      const isRest = isFirst && last !== undefined && !last.endsWith(";") && !MARK.test(last);
      if (isRest) lines?.splice(-1, 1, last + line);
      else if (line !== "") lines?.push(line);
      isFirst = false;
    }
  }

  /** Why it is not what the program wrote, apart from what a mark tells of; undefined if it is. */
  findFault(program: { readonly tag: string; readonly count: number; readonly isEnded: boolean }) {
    // Marks stand in the first stream, for both.
    const isMarked = Object.values(this.#lines).some((lines) =>
      lines.some((one) => MARK.test(one)),
    );
    for (const [stream, letter] of Object.entries(LETTERS)) {
      const numbers = this.#lines[toStream(stream)]
        .filter((line) => !MARK.test(line))
        .map((line) => Number(new RegExp(`^${letter}${program.tag}-(\\d+);$`).exec(line)?.[1]));
      const wrong = numbers.findIndex((number, index) => {
        const before = numbers[index - 1] ?? 0;
        return isMarked ? !(number > before) : number !== before + 1;
      });
      if (wrong !== -1 && !(isMarked && Number.isNaN(numbers[wrong]))) {
        return `${stream} ${wrong}: ${this.#lines[toStream(stream)].slice(wrong - 2, wrong + 2).join(" ")}`;
      }
      const isShort = program.isEnded && !isMarked && numbers.length !== program.count;
      if (isShort) return `${stream}: ${numbers.length} lines of ${program.count}`;
    }
    return undefined;
  }
}

function toStream(name: string): keyof typeof LETTERS {
  return name === "stderr" ? "stderr" : "stdout";
}
