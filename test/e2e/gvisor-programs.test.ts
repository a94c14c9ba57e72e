/** Programs that use much of a kernel, where that kernel is the sandbox's own. */

import { Sandbox } from "e2b";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openFaultHome, type FaultHome } from "../support/faults/fault-home.ts";
import { gvisorRuntime } from "../support/runtimes.ts";

const runtime = gvisorRuntime();
const LIMIT_MS = 120_000;

/** A watch that tells of a file that is made, written and removed. */
const WATCH = `
import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
os.makedirs("/tmp/watched")
watch = libc.inotify_init1(0)
assert libc.inotify_add_watch(watch, b"/tmp/watched", 0x100 | 0x8 | 0x200) > 0
with open("/tmp/watched/a", "w") as file: file.write("x")
os.unlink("/tmp/watched/a")
data, seen = b"", []
while len(seen) < 3:
    data += os.read(watch, 4096)
    while len(data) >= 16 and len(data) >= 16 + struct.unpack_from("I", data, 12)[0]:
        mask, size = struct.unpack_from("I", data, 4)[0], struct.unpack_from("I", data, 12)[0]
        seen.append(mask)
        data = data[16 + size:]
print([hex(mask) for mask in seen])`;

/** An echo of ICMP, as ping sends it. */
const PING = `
import socket, struct
ping = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
ping.settimeout(5)
words = struct.pack("!BBHHH", 8, 0, 0, 0, 1) + b"payload!"
total = sum(struct.unpack("!8H", words))
total = (total >> 16) + (total & 0xffff)
ping.sendto(words[:2] + struct.pack("!H", ~total & 0xffff) + words[4:], ("127.0.0.1", 0))
print(ping.recv(64)[-8:].decode())`;

const GIT = `set -e
git init -q /tmp/one; cd /tmp/one; git config user.name n; git config user.email e@x
seq 1000 >file; git add .; git commit -qm first; git checkout -qb other; echo more >>file
git commit -qam second; git clone -q /tmp/one /tmp/two; cd /tmp/two; git gc -q; git fsck
git log --oneline | wc -l; wc -l <file`;

const PIP = `set -e
mkdir -p /tmp/package; cd /tmp/package; mkdir greeter; echo 'WORD = "hello"' >greeter/__init__.py
printf '[project]\\nname = "greeter"\\nversion = "1.0"\\n[build-system]\\nrequires = []\\nbuild-backend = "backend"\\nbackend-path = ["."]\\n' >pyproject.toml
cat >backend.py <<'END'
import zipfile
def build_wheel(directory, config=None, metadata=None):
    name, facts = "greeter-1.0-py3-none-any.whl", "greeter-1.0.dist-info/"
    with zipfile.ZipFile(f"{directory}/{name}", "w") as wheel:
        wheel.write("greeter/__init__.py")
        wheel.writestr(facts + "METADATA", "Metadata-Version: 2.1\\nName: greeter\\nVersion: 1.0\\n")
        wheel.writestr(facts + "WHEEL", "Wheel-Version: 1.0\\nGenerator: hand\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(facts + "RECORD", "")
    return name
END
python3 -m venv /tmp/venv; /tmp/venv/bin/pip install -q --no-index --no-build-isolation /tmp/package
cd /; /tmp/venv/bin/python -c 'import greeter; print(greeter.WORD)'`;

const GCC = `set -e
cat >/tmp/threads.c <<'END'
#include <pthread.h>
#include <stdio.h>
static void *add(void *sum) { __atomic_add_fetch((long *)sum, 1, __ATOMIC_SEQ_CST); return 0; }
int main(void) {
  long sum = 0; pthread_t all[50];
  for (int i = 0; i < 50; i++) pthread_create(&all[i], 0, add, &sum);
  for (int i = 0; i < 50; i++) pthread_join(all[i], 0);
  printf("%ld\\n", sum);
}
END
gcc -O2 -pthread -o /tmp/threads /tmp/threads.c; /tmp/threads`;

const PROC = `set -e
grep -c '^processor' /proc/cpuinfo; awk '/MemTotal/ { print ($2 > 0) }' /proc/meminfo
tr '\\0' ' ' </proc/self/cmdline | cut -d' ' -f1; readlink /proc/self/exe; ls /proc/self/fd | head -n 1
cut -d' ' -f1 /proc/self/stat | grep -c . ; head -n 1 /proc/self/maps | grep -c -; uname -s
grep -c ' / ' /proc/self/mountinfo; cat /proc/uptime | wc -w; ps -e | grep -c sh`;

/** Of files in memory, and of those on the disk, where versions of the kernel have none. */
const XATTR = `
import os
for path in ("/dev/shm/marked", "/tmp/marked"):
    open(path, "w").close()
    try:
        os.setxattr(path, "user.mark", b"value")
        print(os.getxattr(path, "user.mark").decode(), len(os.listxattr(path)))
        os.removexattr(path, "user.mark")
    except OSError as error:
        print(error.strerror)`;

const NODE = `
const { Worker } = require("node:worker_threads");
const { execFileSync } = require("node:child_process");
const http = require("node:http");
const server = http.createServer((_, reply) => reply.end("served")).listen(0, async () => {
  const text = await (await fetch("http://127.0.0.1:" + server.address().port)).text();
  const worker = new Worker("require('node:worker_threads').parentPort.postMessage(6 * 7)", { eval: true });
  worker.on("message", (value) => {
    console.log(text, value, execFileSync("echo", ["child"]).toString().trim());
    server.close();
    server.closeAllConnections();
  });
});`;

const NPM = `set -e
mkdir -p /tmp/library /tmp/app; cd /tmp/library
echo '{ "name": "library", "version": "1.0.0", "main": "index.js" }' >package.json
echo 'module.exports = "required";' >index.js; npm pack --silent
cd /tmp/app; npm init -y >/dev/null; npm install --offline --no-audit --no-fund --silent ../library/library-1.0.0.tgz
npm pkg set scripts.start="node -p 'require(\\"library\\")'"; npm --silent start`;

const python = (program: string) => `python3 -c '${program}'`;

describe.skipIf(runtime === undefined)("with a kernel of their own", () => {
  let home: FaultHome;
  let sandbox: Sandbox;
  beforeAll(async () => {
    const level = ["--runtime", runtime ?? "", "--require-isolation", "gvisor", "--pool", "0"];
    home = await openFaultHome([...level, "--allow-host-template"]);
    await home.start();
    sandbox = await Sandbox.create("base", home.client());
  }, LIMIT_MS);
  afterAll(() => home[Symbol.asyncDispose]());

  test.for([
    { name: "inotify", command: python(WATCH), output: "['0x100', '0x8', '0x200']\n" },
    { name: "ping", command: python(PING), output: "payload!\n" },
    {
      name: "extended attributes",
      command: python(XATTR),
      output: /^value 1\n(value 1|Operation not supported)\n$/,
    },
    { name: "git", command: GIT, output: "2\n1001\n" },
    { name: "pip", command: PIP, output: "hello\n" },
    { name: "gcc", command: GCC, output: "50\n" },
    {
      name: "/proc",
      command: PROC,
      output: /^\d+\n1\ntr\n\/\S+\n0\n1\n1\nLinux\n[1-9]\d*\n2\n[1-9]\d*\n$/,
    },
  ])("$name does what it does elsewhere", { timeout: LIMIT_MS }, async ({ command, output }) => {
    const { stdout } = await sandbox.commands.run(command, { timeoutMs: LIMIT_MS });
    expect(stdout).toMatch(output);
  });

  test(
    "a terminal is one for its programs, of its size and its user",
    { timeout: LIMIT_MS },
    async () => {
      let shown = "";
      const onData = (bytes: Uint8Array) => {
        shown += Buffer.from(bytes).toString();
      };
      const terminal = await sandbox.pty.create({ cols: 91, rows: 17, onData });
      const typed = new TextEncoder().encode("tty; stty size; id -un; echo en''d\n");
      await sandbox.pty.sendInput(terminal.pid, typed);
      await expect.poll(() => shown).toContain("end");
      expect(shown).toMatch(/\/dev\/pts\/\d+\s+17 91\s+user\s+end/);
      await terminal.kill();
    },
  );

  test(
    "node and npm of this machine work in the template of the host",
    { timeout: LIMIT_MS },
    async () => {
      const host = await Sandbox.create("host", home.client());
      const run = async (command: string) =>
        (await host.commands.run(command, { timeoutMs: LIMIT_MS })).stdout;
      await host.files.write("/tmp/program.cjs", NODE);
      expect(await run("node /tmp/program.cjs")).toBe("served 42 child\n");
      expect(await run(NPM)).toMatch(/required\n$/);
    },
  );
});
