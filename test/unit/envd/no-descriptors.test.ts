/** What callers of the daemon's helpers are told where no descriptor is left. */

import { execFileSync } from "node:child_process";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";

const DAEMON = resolve(import.meta.dirname, "../../../src/envd");

/** Has no descriptor left; prints what each helper's caller is told, and errors that nothing caught. */
const PROGRAM = `
import { openSync } from "node:fs";
import { join } from "node:path";
const [daemon, perl] = process.argv.slice(1);
const { createAttributes } = await import(join(daemon, "attributes.ts"));
const { createInotify } = await import(join(daemon, "watch/inotify.ts"));
const { startOnTerminal } = await import(join(daemon, "process/terminal.ts"));
const { createSpawner } = await import(join(daemon, "process/spawner.ts"));
const { startPiped } = await import(join(daemon, "process/process-streams.ts"));
process.on("uncaughtException", (error) => console.log("uncaught", error.message));
const helper = (name) => ["perl", "-f", join(perl, name)];
const tell = (error) => console.log(error?.code, error?.message);
const attributes = createAttributes(helper("attributes.pl"));
const inotify = createInotify(helper("inotify.pl"));
console.log("begin");
try {
  for (;;) openSync("/dev/null");
} catch {}
await attributes.read(["/"]).catch(tell);
const lost = Promise.withResolvers();
const subscriber = ({ error }) => lost.resolve(error);
inotify.open(subscriber);
try {
  inotify.watch(subscriber, ["/"]);
  tell(await lost.promise);
} catch (error) {
  tell(error);
}
const config = { cmd: "true", args: [] };
const launch = { words: ["true"], cwd: "/", env: {} };
const size = { cols: 80, rows: 24 };
await startOnTerminal({ config, launch, size, relay: helper("terminal.pl") }).catch(tell);
const spawner = createSpawner(helper("spawner.pl"));
const { signal } = new AbortController();
await startPiped({ config, launch, hasInput: true, spawner, signal }).catch(tell);
setImmediate(() => process.exit(0));
`;

test("without a descriptor a helper of the daemon is missed by its caller alone", () => {
  const words = ["--input-type=module", "--eval", PROGRAM, "--", DAEMON, PERL_DIRECTORY];
  const limited = ["-c", 'ulimit -n 100 && exec "$0" "$@"', process.execPath, ...words];
  const said = execFileSync("sh", limited, { encoding: "utf8", cwd: join(DAEMON, "../..") });
  expect(said.trim().split("\n")).toEqual([
    "begin",
    "internal error starting the reader of file attributes: too many open files",
    "internal error starting the reader of inotify events: too many open files",
    "resource_exhausted error starting pty with command 'true' in dir '/' with '80' cols and '24' rows: too many open files",
    "resource_exhausted error starting process 'true': fork/exec /bin/sh: too many open files",
  ]);
});
