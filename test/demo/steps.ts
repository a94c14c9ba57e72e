/** Runs steps one after another, prints each with its milliseconds, and counts. */

export interface Steps {
  /** Runs one step; a failure is printed and counted, never thrown. */
  run(name: string, work: () => Promise<string | void>): Promise<void>;
  /** Prints one line that belongs to the step that runs. */
  show(line: string): void;
  /** Prints the closing line, which begins with the name, and returns the exit code. */
  report(name?: string): number;
  /** The lines of the steps that failed. */
  failures(): readonly string[];
}

export function createSteps(show: (line: string) => void = print): Steps {
  let passed = 0;
  const failed: string[] = [];
  return {
    show,
    async run(name, work) {
      const startedAt = performance.now();
      const elapsed = (): string => `${Math.round(performance.now() - startedAt)} ms`.padStart(9);
      try {
        const note = await work();
        passed += 1;
        show(`ok   ${elapsed()}  ${name}${note === undefined ? "" : `: ${note}`}`);
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error);
        failed.push(`FAIL ${elapsed()}  ${name}: ${reason}`);
        show(failed.at(-1) ?? "");
      }
    },
    report(name = "demo") {
      show(`${name}: ${passed} passed, ${failed.length} failed`);
      return failed.length === 0 ? 0 : 1;
    },
    failures: () => failed,
  };
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
