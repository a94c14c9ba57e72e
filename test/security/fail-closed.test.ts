/** R14: a level that is not proven ends the program, and one that is lost ends the sandbox. */

import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { startOciHost } from "../support/engine/oci-host.ts";
import { startWeakHost } from "../support/hostile/weak-runtime.ts";
import { startProgram } from "../support/program.ts";
import { attackedRuntimes, hasOwnKernel, runtimePath } from "../support/runtimes.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

const NO_USERS = `config.linux.namespaces = config.linux.namespaces.filter((n) => n.type !== "user");
delete config.linux.uidMappings; delete config.linux.gidMappings;`;
const NO_FILTER = "delete config.linux.seccomp;";
/** What each change leaves of the level; read from the kernel, not from the configuration. */
const LEVELS = [
  { name: "nothing changed", config: "", level: "userns-container" },
  { name: "no user namespace", config: NO_USERS, level: "container" },
  { name: "no filter", config: NO_FILTER, level: "none" },
] as const;

describe.each(attackedRuntimes())("on %s", (runtime) => {
  if (hasOwnKernel(runtime)) describeOwnKernel(runtime);
  else describeShared(runtime);
});

/** Its own ids are what the engine can see; the filter of its processes is the runtime's. */
function describeOwnKernel(runtime: string): void {
  test("R14 with nothing changed the level is gvisor", async () => {
    await using host = await startWeakHost(runtime, { config: "" });
    expect(await host.engine.probe("fresh")).toMatchObject({ isUsable: true, level: "gvisor" });
    const container = await host.create();
    expect(container.level).toBe("gvisor");
    await container[Symbol.asyncDispose]();
  });

  test("R14 with no user namespace nothing starts, whatever level is required", async () => {
    await using host = await startWeakHost(runtime, { config: NO_USERS });
    expect(await host.engine.probe("fresh")).toMatchObject({ isUsable: false, level: "none" });
    await expect(host.create()).rejects.toMatchObject({ code: "unavailable" });
  });

  test("R14 a program of another name is no such runtime, and nothing starts", async () => {
    await using folder = await makeTempFolder();
    const path = join(folder.path, "runsc");
    await writeFile(path, `#!/bin/sh\nexec ${runtimePath(runtime)} "$@"\n`);
    await chmod(path, 0o755);
    await using host = await startOciHost(path, "gvisor");
    expect(await host.engine.probe("fresh")).toMatchObject({ isUsable: false });
    await expect(host.create()).rejects.toMatchObject({ code: "unavailable" });
  });
}

function describeShared(runtime: string): void {
  test.for(LEVELS)("R14 with $name the level is $level", async ({ config, level }) => {
    await using host = await startWeakHost(runtime, { config });
    expect(await host.engine.probe("fresh")).toMatchObject({ isUsable: true, level });
    const container = await host.create();
    expect(container.level).toBe(level);
    await container[Symbol.asyncDispose]();
  });

  test("R14 a runtime that does less than it was seen to do starts nothing", async () => {
    await using folder = await makeTempFolder();
    const path = join(folder.path, "runtime");
    const real = runtimePath(runtime) ?? runtime;
    await writeFile(path, `#!/bin/sh\nexec ${real} "$@"\n`);
    await chmod(path, 0o755);
    await using host = await startOciHost(path);
    await host.engine.probe();
    const change = `sed -i 's/"seccomp"/"notseccomp"/' "$(echo "$*" | sed 's/.*--bundle \\([^ ]*\\).*/\\1/')/config.json"`;
    await writeFile(
      path,
      `#!/bin/sh\ncase "$*" in *" run "*) ${change};; esac\nexec ${real} "$@"\n`,
    );
    await expect(host.create()).rejects.toMatchObject({
      code: "unavailable",
      message: expect.stringContaining("isolation is none, not userns-container"),
    });
  });

  test.for([
    { name: "a guest kernel", level: "gvisor", change: "" },
    { name: "own ids", level: "userns-container", change: NO_USERS },
    { name: "a filter", level: "container", change: NO_FILTER },
  ])("R14 without $name, which $level needs, the program ends with 78", async (row) => {
    await using home = await makeTempFolder();
    await using folder = await makeTempFolder();
    const path = join(folder.path, "runsc");
    const real = runtimePath(runtime) ?? runtime;
    // It calls itself by the name of the strongest.
    const program = `const fs = require("node:fs");
const path = process.argv[process.argv.indexOf("--bundle") + 1] + "/config.json";
const config = JSON.parse(fs.readFileSync(path, "utf8"));
${row.change}
fs.writeFileSync(path, JSON.stringify(config));`;
    await writeFile(join(folder.path, "change.cjs"), program);
    await writeFile(
      path,
      `#!/bin/sh
case "$*" in
*--version*) echo "runsc version 1"; exit;;
*" run "*) ${process.execPath} ${folder.path}/change.cjs "$@" 3>&- 4>&-;;
esac
exec ${real} "$@"
`,
    );
    await chmod(path, 0o755);
    const words = ["stdio", "--runtime", path, "--require-isolation", row.level];
    await using started = startProgram([...words, "--home", home.path]);
    expect(await started.exited()).toBe(78);
    expect(started.stderr()).toContain(`is weaker than the required ${row.level}`);
  });
}
