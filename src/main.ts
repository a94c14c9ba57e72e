#!/usr/bin/env node
/** Entry of the program: refuses a Node that is too old, then starts the command line. */

const MIN_NODE_MAJOR = 24;
const EXIT_UNAVAILABLE = 69;
const EXIT_INTERNAL = 70;
const RIGHTS_OF_OTHERS = 0o077;

const major = Number(process.versions.node.split(".")[0]);
if (major < MIN_NODE_MAJOR) {
  process.stderr.write(
    `sandbox-mcp: needs Node ${MIN_NODE_MAJOR} or newer, this is ${process.versions.node}: ` +
      "install it and start again\n",
  );
  process.exitCode = EXIT_UNAVAILABLE;
} else {
  void start().catch((error: unknown) => {
    const text = error instanceof Error ? error.message : String(error);
    process.stderr.write(`sandbox-mcp: ${text.replaceAll("\n", " ")}\n`);
    process.exitCode = EXIT_INTERNAL;
  });
}

/** Everything else is imported only now: an old Node could not even load it. */
async function start(): Promise<void> {
  // One that takes rights from the owner keeps a program from the files that it makes.
  process.umask(process.umask(RIGHTS_OF_OTHERS) & RIGHTS_OF_OTHERS);
  const { lockInspector } = await import("./inspector-lock.ts");
  lockInspector(process.env);
  const { keepCompiled } = await import("./compile-cache.ts");
  keepCompiled(process.env, process.argv.slice(2));
  const { runProgram } = await import("./cli.ts");
  process.exitCode = await runProgram();
}
