#!/usr/bin/env node
/** Entry of the program: refuses a Node that is too old, then starts the command line. */

const MIN_NODE_MAJOR = 24;
const EXIT_UNAVAILABLE = 69;

const major = Number(process.versions.node.split(".")[0]);
if (major < MIN_NODE_MAJOR) {
  process.stderr.write(
    `sandbox-mcp: needs Node ${MIN_NODE_MAJOR} or newer, this is ${process.versions.node}: ` +
      "install it and start again\n",
  );
  process.exitCode = EXIT_UNAVAILABLE;
} else {
  // What fails unforeseen ends the process with a trace.
  void start();
}

/** Everything else is imported only now: an old Node could not even load it. */
async function start(): Promise<void> {
  const { lockInspector } = await import("./inspector-lock.ts");
  lockInspector(process.env);
  const { keepCompiled } = await import("./compile-cache.ts");
  keepCompiled(process.env, process.argv.slice(2));
  const { runProgram } = await import("./cli.ts");
  process.exitCode = await runProgram();
}
