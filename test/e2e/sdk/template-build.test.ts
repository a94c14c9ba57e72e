/** Templates built with the official client from code and from a Dockerfile, unmodified. */

import { chmod, mkdir, symlink, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { LogEntry, Sandbox as SandboxType } from "e2b";
import { expect, test } from "vitest";
import { newestSdk, useSdkServe } from "../../support/clients/sdk.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const { Sandbox, Template, waitForFile, waitForPort, waitForTimeout } = newestSdk;
const service = useSdkServe();
const BUILD_LIMIT_MS = 300_000;

/** A folder with files to copy. */
async function makeContext() {
  const folder = await makeTempFolder();
  const { path } = folder;
  await mkdir(join(path, "app/inner"), { recursive: true });
  await writeFile(join(path, "app/main.txt"), "main");
  await writeFile(join(path, "app/inner/deep.txt"), "deep");
  await writeFile(join(path, "one.txt"), "one");
  await writeFile(join(path, "two words.txt"), "two");
  await chmod(join(path, "one.txt"), 0o600);
  await symlink("one.txt", join(path, "link.txt"));
  return folder;
}

/** Builds, and returns the lines of its log. */
async function build(template: Parameters<typeof Template.toJSON>[0], name: string, more = {}) {
  const entries: LogEntry[] = [];
  const onBuildLogs = (entry: LogEntry) => void entries.push(entry);
  const made = await Template.build(template, name, { ...service.options, onBuildLogs, ...more });
  return { made, lines: entries.map(({ message }) => message) };
}

async function read(sandbox: SandboxType, command: string): Promise<string> {
  return (await sandbox.commands.run(command)).stdout.trim();
}

test("a template is ready when its server listens", { timeout: BUILD_LIMIT_MS }, async () => {
  const template = Template()
    .fromTemplate("base")
    .setStartCmd("sleep 1; exec python3 -m http.server 8123", waitForPort(8123));
  const { made } = await build(template, "listens");
  const sandbox = await Sandbox.create("listens", service.options);
  try {
    expect(await read(sandbox, "curl -sI 127.0.0.1:8123 | head -n 1")).toMatch(/ 200 OK$/);
  } finally {
    await sandbox.kill();
  }
  expect(made.name).toBe("listens");
});

test("every method of the builder", { timeout: BUILD_LIMIT_MS }, async () => {
  await using context = await makeContext();
  const template = Template({ fileContextPath: context.path })
    .fromTemplate("base")
    .setEnvs({ GREETING: "hello" })
    // As in a Dockerfile, a value sees the variables of the steps before.
    .setEnvs({ BOTH: "$GREETING ${MISSING:-you} $(id)" })
    .copy("app", "app")
    .copy("one.txt", "/opt/renamed.txt", { user: "root", mode: 0o640 })
    .copyItems([
      { src: "*.txt", dest: "texts/" },
      { src: "two words.txt", dest: "/srv/" },
    ])
    .runCmd(["echo $GREETING > ran.txt", "pwd >> ran.txt"])
    .runCmd("id -un > /opt/who.txt", { user: "root" })
    .makeDir(["made/a", "made/b"], { mode: 0o700 })
    .rename("made/b", "made/c")
    .makeSymlink("made/a", "pointer")
    .remove("made/c", { recursive: true })
    .aptInstall("bash")
    .setUser("worker")
    .setWorkdir("/srv/deep")
    .runCmd("touch mine; id -un; echo to-stderr >&2")
    .runCmd("echo {} > package.json")
    .npmInstall()
    .setStartCmd("sleep 0.2; touch /tmp/up; exec sleep 1000", waitForFile("/tmp/up"));
  const { made, lines } = await build(template, "every:v1", { cpuCount: 1, memoryMB: 300 });
  expect(made).toMatchObject({ name: "every:v1", tags: ["v1"] });
  expect(lines).toEqual(expect.arrayContaining(["worker", "to-stderr"]));
  const sandbox = await Sandbox.create("every:v1", service.options);
  try {
    expect(await read(sandbox, "cat /opt/who.txt; echo $BOTH; pwd; id -un; ls -l mine")).toMatch(
      /^root\nhello you \$\(id\)\n\/srv\/deep\nworker\n-rw\S+ 1 worker worker /,
    );
    expect(await read(sandbox, "cat /home/user/ran.txt /home/user/app/inner/deep.txt")).toBe(
      "hello\n/home/user\ndeep",
    );
    expect(await read(sandbox, "stat -c '%a %U:%G' /opt/renamed.txt /home/user/app/main.txt")).toBe(
      "640 root:root\n644 user:user",
    );
    expect(await read(sandbox, "ls /home/user/texts; readlink /home/user/texts/link.txt")).toBe(
      "link.txt\none.txt\ntwo words.txt\none.txt",
    );
    expect(await read(sandbox, "cat '/srv/two words.txt'; stat -c %a /home/user/made/a")).toBe(
      "two700",
    );
    expect(await read(sandbox, "ls /home/user/made; pgrep -c sleep; ls /tmp/up")).toBe(
      "a\n1\n/tmp/up",
    );
    expect(await sandbox.getInfo()).toMatchObject({ cpuCount: 1, memoryMB: 300 });
  } finally {
    await sandbox.kill();
  }
});

/** Twelve commands, of which the seventh can be another one. */
function twelve(seventh: string) {
  let template = Template().fromTemplate("base");
  for (let index = 1; index <= 12; index += 1) {
    template = template.runCmd(`echo ${index === 7 ? seventh : index} >> /home/user/steps`);
  }
  return template;
}

function isRun(line: string): boolean {
  return /^\[\d+\/12\]/.test(line);
}

function isCached(lines: readonly string[]): boolean {
  return lines.some((line) => line.startsWith("CACHED [1/1]"));
}

test(
  "a second build starts no sandbox, a changed step those behind it",
  async () => {
    const first = await build(twelve("7"), "twelve");
    expect(first.lines.filter(isRun)).toHaveLength(12);
    const second = await build(twelve("7"), "twelve");
    expect(second.lines.filter(isRun)).toHaveLength(0);
    expect(second.lines.filter((line) => line.startsWith("CACHED"))).toHaveLength(13);
    const third = await build(twelve("seven"), "twelve");
    expect(third.lines.filter(isRun)).toHaveLength(6);
    const forced = await build(twelve("seven").skipCache().runCmd("true"), "twelve");
    expect(forced.lines.filter((line) => line.startsWith("[13/13]"))).toHaveLength(1);
    const sandbox = await Sandbox.create("twelve", service.options);
    expect(await read(sandbox, "tr '\\n' ' ' < steps")).toBe("1 2 3 4 5 6 seven 8 9 10 11 12");
    await sandbox.kill();
  },
  BUILD_LIMIT_MS,
);

test(
  "COPY of a changed file misses, of a touched one hits",
  async () => {
    await using context = await makeContext();
    const copied = () =>
      Template({ fileContextPath: context.path }).fromTemplate("base").copy("one.txt", "a");
    expect(isCached((await build(copied(), "copy")).lines)).toBe(false);
    await utimes(join(context.path, "one.txt"), 1, 1);
    expect(isCached((await build(copied(), "copy")).lines)).toBe(true);
    await writeFile(join(context.path, "one.txt"), "changed");
    expect(isCached((await build(copied(), "copy")).lines)).toBe(false);
  },
  BUILD_LIMIT_MS,
);

test(
  "an error has the stack of its step, and the template stays as it was",
  async () => {
    const template = Template().fromTemplate("base").runCmd("true");
    const atStep = template.runCmd("echo said >&2; exit 7");
    const failed = await build(atStep, "broken").catch((error: unknown) => error);
    expect(failed).toMatchObject({ name: "BuildError" });
    expect(String(failed)).toContain("exit code 7");
    expect(failed instanceof Error ? failed.stack : "").toContain("template-build.test.ts");
    await expect(Sandbox.create("broken", service.options)).rejects.toThrow(/not found|tag/i);
  },
  BUILD_LIMIT_MS,
);

test(
  "a Dockerfile",
  async () => {
    await using context = await makeContext();
    const dockerfile = [
      "FROM e2bdev/base",
      "ARG WHO=docker",
      "ENV NAME=$WHO",
      "COPY --chown=user app /srv/app",
      "RUN echo $NAME > /srv/name",
      "WORKDIR /srv",
      'CMD ["sleep", "1000"]',
    ].join("\n");
    const template = Template({ fileContextPath: context.path })
      .fromDockerfile(dockerfile)
      .setReadyCmd(waitForTimeout(1_000));
    await build(template, "dockered");
    const sandbox = await Sandbox.create("dockered", service.options);
    expect(await read(sandbox, "cat /srv/name; ls /srv/app; id -un; pwd; pgrep -c sleep")).toBe(
      "docker\ninner\nmain.txt\nuser\n/srv\n1",
    );
    await sandbox.kill();
  },
  BUILD_LIMIT_MS,
);
