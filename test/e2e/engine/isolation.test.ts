/** What lies outside of a sandbox is out of its reach, on both templates. */

import { readFile } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Container, Layer } from "../../../src/engine/engine.ts";
import { buildHost } from "../../../src/engine/templates/host.ts";
import { baseLayers } from "../../support/base-layer.ts";
import { startOciHost, type OciHost } from "../../support/engine/oci-host.ts";
import { initDaemon, runInside } from "../../support/engine/run-inside.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";

const BUILD_TIMEOUT_MS = 600_000;
const RUNTIMES = ["crun", "runc"];
const TEMPLATES = ["base", "host"];

describe.each(RUNTIMES.flatMap((runtime) => TEMPLATES.map((template) => ({ runtime, template }))))(
  "inside $template on $runtime",
  ({ runtime, template }) => {
    let host: OciHost;
    let layers: readonly Layer[];
    let container: Container;

    beforeAll(async () => {
      host = await startOciHost(runtime);
      layers =
        template === "base"
          ? await baseLayers()
          : await buildHost({
              directory: join(host.home, "layers", "host"),
              perlDirectory: PERL_DIRECTORY,
            });
      container = await host.create({ layers });
      await initDaemon(container);
    }, BUILD_TIMEOUT_MS);

    afterAll(async () => {
      await container[Symbol.asyncDispose]();
      await host[Symbol.asyncDispose]();
    });

    test("the host's accounts and folders are not there", async () => {
      const shadow = await readFile("/etc/shadow", "utf8");
      const result = await runInside(
        container,
        `cat /etc/shadow; ls -A /home /root; ls -d ${host.home} ${import.meta.dirname} 2>/dev/null`,
      );
      expect(result.stdout).not.toContain(shadow.split("\n")[0]);
      expect(result.stdout).not.toContain(host.home);
      expect(result.stdout).not.toContain(import.meta.dirname);
      expect(result.stdout).toMatch(/\/home:\nuser\n/);
      expect(result.stdout).not.toMatch(/^\.ssh$/m);
    });

    test("root replaces no perl program of the daemon, and not their table", async () => {
      const attempts = ["echo x > $f", "rm $f", "mv $f other", "mount --bind /dev/null $f"];
      const { stdout } = await runInside(
        container,
        `exec 2>/dev/null; cd /run/sandbox-mcp; for f in *.pl new.pl; do
        ${attempts.map((attempt) => `(${attempt}) ||`).join(" ")} echo $f; done`,
        "root",
      );
      const names = [
        "abilities",
        "attributes",
        "execute",
        "inotify",
        "listen-inside",
        "sentry-links",
        "sentry-relay",
        "spawner",
        "syscalls",
        "terminal",
      ];
      expect(stdout.trim().split("\n")).toEqual([...names, "new"].map((name) => `${name}.pl`));
    });

    test("no listener of the host answers", async () => {
      await using tcp = await listen({ host: "127.0.0.1", port: 0 });
      await using abstract = await listen({ path: `\0${host.idPrefix}` });
      const program = `
import socket
def knock(family, address):
    try:
        socket.socket(family).connect(address)
        return "open"
    except OSError as error:
        return error.strerror
print(knock(socket.AF_INET, ("127.0.0.1", ${tcp.port})))
print(knock(socket.AF_UNIX, "\\0${host.idPrefix}"))
print(knock(socket.AF_INET, ("169.254.169.254", 80)))`;
      expect(abstract.port).toBe(0);
      const result = await runInside(container, `python3 - <<'END'${program}\nEND`);
      expect(result).toEqual({
        exitCode: 0,
        stdout: "Connection refused\nConnection refused\nNetwork is unreachable\n",
        stderr: "",
      });
    });

    test("another sandbox's processes and files are not seen", async () => {
      await using other = await host.create({ layers });
      await initDaemon(other);
      await runInside(other, "echo secret > /tmp/canary; sleep 1000 >/dev/null 2>&1 & echo on");
      const seen = await runInside(
        container,
        "ls /tmp/canary 2>/dev/null; grep -l sleep /proc/[0-9]*/comm; ls -d /proc/[0-9]* | wc -l",
      );
      expect(seen.stdout).toMatch(/^[3-9]\n$/);
      const [one, two] = [await addressesOf(container), await addressesOf(other)];
      expect(one).toEqual(["lo"]);
      expect(two).toEqual(["lo"]);
    });

    test("root cannot leave its namespaces or touch the kernel", async () => {
      const attempts = [
        "unshare -U true",
        "unshare -m true",
        "nsenter -t 1 -m true",
        "mount -t tmpfs none /mnt",
        "mknod /tmp/memory c 1 1",
        "chroot /proc/1/root true",
        "dmesg",
        "echo x > /proc/sys/kernel/core_pattern",
        "echo b > /proc/sysrq-trigger",
        "ls /sys/fs/cgroup/memory/tasks",
        "cat /proc/1/environ",
      ];
      const script = attempts
        .map((line) => `(${line}) >/dev/null 2>&1 && echo '${line}'`)
        .join("\n");
      expect((await runInside(container, `${script}\ntrue`)).stdout).toBe("");
    });

    test("the user becomes root by sudo, and by nothing else", async () => {
      const script =
        "cat /etc/shadow; sudo -v && sudo -n id -u; sudo WORD='a b' printenv WORD; id -u";
      const result = await runInside(container, script, "user");
      expect(result).toMatchObject({ exitCode: 0, stdout: "0\na b\n1000\n" });
    });
  },
);

test("the host template shows nothing of /usr/local", async () => {
  await using host = await startOciHost("auto");
  const layers = await buildHost({
    directory: join(host.home, "layers", "host"),
    perlDirectory: PERL_DIRECTORY,
  });
  await using container = await host.create({ layers });
  await initDaemon(container);
  const { stdout } = await runInside(container, "find /usr/local -type f; ls -A /opt /srv /mnt");
  expect(stdout.replace("/usr/local/bin/sudo\n", "")).toBe("/mnt:\n\n/opt:\n\n/srv:\n");
});

async function addressesOf(container: Container): Promise<string[]> {
  const { stdout } = await runInside(container, "cat /proc/net/dev");
  return [...stdout.matchAll(/^\s*(\S+):/gm)].map((match) => match[1] ?? "");
}

async function listen(where: { host: string; port: number } | { path: string }) {
  const server: Server = createServer((socket) => socket.end());
  const { promise, resolve } = Promise.withResolvers<void>();
  server.listen(where, resolve);
  await promise;
  const address = server.address();
  return {
    port: typeof address === "object" ? (address?.port ?? 0) : 0,
    [Symbol.asyncDispose]: async () => {
      const closed = Promise.withResolvers<void>();
      server.close(() => closed.resolve());
      await closed.promise;
    },
  };
}
