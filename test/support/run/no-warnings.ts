/** In each process of tests: what Node itself warns of, such as too many listeners, fails the run. */

function failRun(warning: Error): void {
  // Node before 24.15 warns of its SQLite.
  if (warning.name !== "ExperimentalWarning") throw warning;
}

// The files of a level share processes, and each file comes here.
if (!process.listeners("warning").some(({ name }) => name === failRun.name)) {
  process.on("warning", failRun);
}
