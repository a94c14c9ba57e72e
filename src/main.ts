#!/usr/bin/env node
/** Entry of the program: refuses a Node that is too old, then starts the command line. */

/** A server on Node 24.4 does not end with its host, and one on 24.8 refuses offers of HTTP/2. */
const MIN_NODE = { major: 24, minor: 9 } as const;
const EXIT_UNAVAILABLE = 69;
const EXIT_INTERNAL = 70;
const RIGHTS_OF_OTHERS = 0o077;
/**
 * They change every program of perl, also that which an ordinary user's start becomes: by modules, by
 * those of another perl in place of its own, and by another encoding.
 */
const PERL_VARIABLES = ["PERL5OPT", "PERL5DB", "PERL5LIB", "PERLLIB", "PERL_UNICODE"] as const;

const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
if (major < MIN_NODE.major || (major === MIN_NODE.major && minor < MIN_NODE.minor)) {
  process.stderr.write(
    `sandbox-mcp: needs Node ${MIN_NODE.major}.${MIN_NODE.minor} or newer, this is ${process.versions.node}: ` +
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
  quietSqlite();
  for (const name of PERL_VARIABLES) Reflect.deleteProperty(process.env, name);
  // perl has a page to say of a locale that this machine lacks, as one that came over SSH.
  process.env["PERL_BADLANG"] = "0";
  const { lockInspector } = await import("./inspector-lock.ts");
  lockInspector(process.env);
  const { keepCompiled } = await import("./compile-cache.ts");
  keepCompiled(process.env, process.argv.slice(2));
  const { runProgram } = await import("./cli.ts");
  process.exitCode = await runProgram();
}

/** Node before 24.15 says at each start that its SQLite is experimental. */
function quietSqlite(): void {
  const printers = process.listeners("warning");
  process.removeAllListeners("warning").on("warning", (warning) => {
    if (warning.name === "ExperimentalWarning" && warning.message.includes("SQLite")) return;
    for (const print of printers) print(warning);
  });
}
