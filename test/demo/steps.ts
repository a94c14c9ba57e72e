/** Runs steps one after another, prints each with its milliseconds, and counts. */

export interface Steps {
  /** Runs one step; a failure is printed and counted, never thrown. */
  run(name: string, work: () => Promise<string | void>): Promise<void>;
  /** Prints one line that belongs to the step that runs. */
  show(line: string): void;
  /** Prints the closing line and returns the exit code. */
  report(): number;
}

export function createSteps(): Steps {
  let passed = 0;
  let failed = 0;
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
        failed += 1;
        show(
          `FAIL ${elapsed()}  ${name}: ${error instanceof Error ? error.message : String(error)}`,
        );
      }
    },
    report() {
      show(`demo: ${passed} passed, ${failed} failed`);
      return failed === 0 ? 0 : 1;
    },
  };
}

function show(line: string): void {
  process.stdout.write(`${line}\n`);
}
