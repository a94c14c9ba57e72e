/** What a sandbox must not reach: its neighbours, the host's secrets, the host's listeners. */

import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { networkInterfaces } from "node:os";
import { Sandbox, type SandboxOpts } from "e2b";
import { afterAll, beforeAll, expect, test } from "vitest";
import { hostPidOf } from "../support/engine/host-pid.ts";
import { isGvisor } from "../support/level.ts";
import { startServe, type TestServe } from "../support/serve.ts";

let serve: TestServe;
let options: SandboxOpts;
let sandbox: Sandbox;
let neighbour: Sandbox;

beforeAll(async () => {
  serve = await startServe();
  const urls = { apiUrl: serve.url, sandboxUrl: serve.url };
  // Under load the file takes longer than a sandbox lives by default.
  options = { apiKey: serve.apiKey, ...urls, timeoutMs: 3_600_000 };
  [sandbox, neighbour] = await Promise.all([
    Sandbox.create("base", options),
    Sandbox.create("base", options),
  ]);
});

afterAll(async () => {
  await Promise.all([sandbox.kill(), neighbour.kill()]);
  await serve[Symbol.asyncDispose]();
});

/** Output of a command as root of the sandbox, whatever its exit code. */
async function asRoot(command: string, target: Sandbox = sandbox): Promise<string> {
  const result = await target.commands.run(`${command}; true`, { user: "root" });
  return result.stdout + result.stderr;
}

/** The ids of its processes on the host: the first inside, that outside, and how many. */
async function mapOf({ sandboxId }: Sandbox): Promise<readonly number[]> {
  const text = await readFile(`/proc/${await hostPidOf(sandboxId)}/uid_map`, "utf8");
  return text.trim().split(/\s+/).map(Number);
}

test("root inside is nobody on the host", async () => {
  const [inside, outside, count] = await mapOf(sandbox);
  expect([inside, count]).toEqual([0, 65_536]);
  expect(outside).toBeGreaterThanOrEqual(100_000);
  expect((await mapOf(neighbour))[1]).not.toBe(outside);
});

test("a neighbour's processes and files are out of sight", async () => {
  await neighbour.commands.run("exec sleep 4242", { background: true });
  await neighbour.files.write("/home/user/only-here.txt", "secret of the neighbour");
  expect(await asRoot("ps -ef")).not.toContain("4242");
  expect(await asRoot("find / -name only-here.txt 2>/dev/null")).toBe("");
  expect(await asRoot("ps -ef", neighbour)).toContain("4242");
});

test("the host's accounts and homes are not there", async () => {
  const hostShadow = await readFile("/etc/shadow", "utf8");
  const shadow = await asRoot("cat /etc/shadow");
  const hashes = hostShadow.split("\n").flatMap((line) => {
    const hash = line.split(":")[1] ?? "";
    return hash.length > 3 ? [hash] : [];
  });
  expect(hashes.filter((hash) => shadow.includes(hash))).toEqual([]);
  expect(await asRoot("ls -A /home")).toBe("user\n");
  expect(await asRoot("ls /root/.ssh /root/.npmrc /root/.config 2>&1 | grep -v 'No such'")).toBe(
    "",
  );
  expect(await asRoot("ls /proc/1/root/var/lib/sandbox-mcp 2>&1")).toMatch(/No such file|denied/);
});

test("no listener of the host answers", async () => {
  const server: Server = createServer((socket) => socket.end("reached the host"));
  server.listen(0, "0.0.0.0");
  await once(server, "listening");
  try {
    const address = server.address();
    const port = typeof address === "object" ? address?.port : 0;
    const hostAddresses = Object.values(networkInterfaces())
      .flatMap((list) => list ?? [])
      .filter((entry) => entry.family === "IPv4")
      .map((entry) => entry.address);
    expect(hostAddresses).toContain("127.0.0.1");
    for (const host of hostAddresses) {
      const output = await asRoot(
        `python3 -c "import socket; s = socket.create_connection(('${host}', ${port}), 2); print(s.recv(99))" 2>&1 | tail -n 1`,
      );
      expect(output).toMatch(/refused|unreachable|no route|timed out/i);
    }
    const service = new URL(serve.url);
    expect(
      await asRoot(`curl -sS -m 2 http://${service.host}/health 2>&1 || echo out of reach`),
    ).toContain("out of reach");
  } finally {
    server.close();
  }
});

test("abstract sockets of the host do not answer", async () => {
  const name = `\0sandbox-mcp-test-${process.pid}`;
  const server = createServer((socket) => socket.end("reached the host"));
  server.listen(name);
  await once(server, "listening");
  try {
    const output = await asRoot(
      `python3 -c "import socket; s = socket.socket(socket.AF_UNIX); s.connect('\\0sandbox-mcp-test-${process.pid}'); print(s.recv(99))" 2>&1 | tail -n 1`,
    );
    expect(output).toMatch(/refused/i);
  } finally {
    server.close();
  }
});

test("the kernel's dangerous doors are shut", async () => {
  const attempts = [
    "mount -t tmpfs none /mnt",
    "unshare --mount true",
    // A user namespace of gVisor is that kernel's own.
    ...(isGvisor ? [] : ["unshare --user true"]),
    "chroot /proc/1/root ls /var/lib/sandbox-mcp",
    "mknod /tmp/disk b 252 0",
    "echo x > /proc/sys/kernel/core_pattern",
    "echo b > /proc/sysrq-trigger",
    "cat /dev/mem /dev/kmsg /dev/kvm",
    "nsenter --target 1 --net true && ip link set lo down",
    "python3 -c 'import socket; socket.socket(40, socket.SOCK_STREAM)'",
    "python3 -c 'import socket; socket.socket(38, socket.SOCK_SEQPACKET)'",
    "python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)'",
    "date -s 2001-01-01",
    "hostname changed-by-attack",
  ];
  const results = await Promise.all(
    attempts.map(async (attempt) => {
      const result = await sandbox.commands.run(`(${attempt}) >/dev/null 2>&1; echo $?`, {
        user: "root",
      });
      return [attempt, result.stdout.trim() !== "0"] as const;
    }),
  );
  expect(results.filter(([, refused]) => !refused).map(([attempt]) => attempt)).toEqual([]);
});

const BOMB = [
  "import os, signal",
  "pids = []",
  "try:",
  "    while True:",
  "        pid = os.fork()",
  "        if pid == 0: signal.pause()",
  "        pids.append(pid)",
  "except OSError: print(len(pids))",
  "for pid in pids: os.kill(pid, 9)",
].join("\n");
const HOG = 'python3 -c "x = bytearray(900 * 1024 * 1024)" 2>&1; echo ended';

test("a disk that is full is that of one sandbox", async () => {
  const filler = "(head -c 3G /dev/zero > /var/tmp/full) 2>&1 | tail -n 1; rm /var/tmp/full";
  expect(await asRoot(filler)).toContain("No space left on device");
});

test.skipIf(isGvisor)("limits hold inside their own sandbox", async () => {
  await sandbox.files.write("/tmp/bomb.py", BOMB);
  const forks = Number(await asRoot("python3 /tmp/bomb.py"));
  expect(forks).toBeGreaterThan(100);
  expect(forks).toBeLessThan(512);
  expect(await asRoot("echo alive", neighbour)).toBe("alive\n");
  expect(await asRoot(HOG)).toContain("ended");
  expect(await asRoot("echo alive")).toBe("alive\n");
});

/** Where the kernel of gVisor has too little memory for its programs, the host ends it with them. */
test.skipIf(!isGvisor)("what takes all of a sandbox leaves its neighbour alone", async () => {
  for (const attack of ["python3 /tmp/bomb.py", HOG]) {
    const own = await Sandbox.create("base", options);
    await own.files.write("/tmp/bomb.py", BOMB);
    const said = await asRoot(attack, own).catch(String);
    expect(said).toMatch(/^\d+\n$|ended|terminated/);
    expect(await asRoot("echo alive", neighbour)).toBe("alive\n");
    await own.kill();
  }
});
