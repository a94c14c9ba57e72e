/** What a sandbox reaches, and what it never reaches, in a lab of namespaces that the test made. */

import { Sandbox, type SandboxOpts } from "e2b";
import { afterAll, beforeAll, expect, test } from "vitest";
import { takeCensus } from "../support/census.ts";
import { LAB, startLab, type Lab } from "../support/lab.ts";
import { startProgram, type TestProgram } from "../support/program.ts";
import { startServe, type TestServe } from "../support/serve.ts";

const OPEN = `http://${LAB.publicHost}:${LAB.port}/`;
const OTHER = `http://${LAB.otherHost}:${LAB.port}/`;
const ALL = "0.0.0.0/0";

let lab: Lab;
let untouched: readonly string[];
let serve: TestServe;
let options: SandboxOpts;
let sandbox: Sandbox;

beforeAll(async () => {
  lab = await startLab();
  untouched = await lab.traces();
  serve = await startServe(labFlags());
  options = { apiKey: serve.apiKey, apiUrl: serve.url, sandboxUrl: serve.url };
  sandbox = await Sandbox.create("base", options);
});

afterAll(async () => {
  await sandbox.kill();
  await serve[Symbol.asyncDispose]();
  await lab[Symbol.asyncDispose]();
});

function labFlags(): string[] {
  return ["--egress", lab.namespace, "--dns", LAB.nameServer];
}

async function create(more: SandboxOpts): Promise<Sandbox & AsyncDisposable> {
  const made = await Sandbox.create("base", { ...options, ...more });
  return Object.assign(made, { [Symbol.asyncDispose]: async () => void (await made.kill()) });
}

/** Everything a command of root inside prints, whatever its exit code. */
async function inside(target: Sandbox, command: string): Promise<string> {
  const result = await target.commands.run(`{ ${command}; } 2>&1; true`, { user: "root" });
  return result.stdout.trim();
}

async function fetchFrom(target: Sandbox, url: string): Promise<string> {
  return inside(target, `curl -sS -m 2 ${url}`);
}

async function udpFrom(target: Sandbox, host: string, port: number): Promise<string> {
  const program = `import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(1); s.connect(('${host}', ${port})); s.send(b'knock'); print(s.recv(99))`;
  return inside(target, `python3 -c "${program}" | tail -n 1`);
}

const FAILED =
  /refused|unreachable|timed out|timeout|couldn't connect|failed to connect|no route|not permitted/i;

test("a public host answers over TCP and UDP, and sees the machine as the sender", async () => {
  expect(await fetchFrom(sandbox, OPEN)).toBe(`far ${LAB.publicHost} saw ${LAB.machine}`);
  expect(await udpFrom(sandbox, LAB.publicHost, LAB.port)).toBe("b'far knock'");
  expect(await fetchFrom(sandbox, OTHER)).toContain(LAB.otherHost);
});

test("names are resolved by the name server of the machine", async () => {
  expect(await inside(sandbox, "getent ahostsv4 service.test | head -n 1")).toContain(
    LAB.publicHost,
  );
  expect(await fetchFrom(sandbox, `http://service.test:${LAB.port}/`)).toContain("far");
});

test("private, metadata and local ranges stay out of reach even when allowOut names them", async () => {
  await using greedy = await create({
    network: {
      allowOut: [ALL, ...LAB.unreachable.map((address) => `${address}/32`), "169.254.0.0/16"],
    },
  });
  const before = await lab.received();
  const attempts = [sandbox, greedy].flatMap((target) => [
    ...LAB.unreachable.map(async (address) => fetchFrom(target, `http://${address}:${LAB.port}/`)),
    udpFrom(target, "169.254.169.254", 53),
  ]);
  for (const outcome of await Promise.all(attempts)) expect(outcome).toMatch(FAILED);
  expect(await lab.received()).toBe(before);
});

test("no listener of the machine answers, by any of its addresses", async () => {
  const addresses = await lab.onMachine("ip -4 -o addr");
  const own = [...addresses.matchAll(/inet ([\d.]+)/g)].map((match) => match[1] ?? "");
  expect(own).toContain(LAB.machine);
  expect(own.length).toBeGreaterThan(2);
  const gateway = await inside(sandbox, "sed -n 's/^nameserver //p' /etc/resolv.conf");
  expect(gateway).toMatch(/^198\.19\./);
  const attempts = [...own, gateway, "127.0.0.1", "0.0.0.0"].flatMap((address) => [
    ...[LAB.port, 53, 22].map(async (port) => {
      if (address === gateway && port === 53)
        return "refused by design: only names are asked there";
      return fetchFrom(sandbox, `http://${address}:${port}/`);
    }),
    udpFrom(sandbox, address, LAB.port),
  ]);
  for (const outcome of await Promise.all(attempts)) expect(outcome).toMatch(FAILED);
});

test("sandboxes do not reach each other", async () => {
  await using neighbour = await create({});
  const address = await inside(
    neighbour,
    `python3 -c "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('${LAB.publicHost}', 9)); print(s.getsockname()[0])"`,
  );
  expect(address).toMatch(/^198\.18\./);
  await neighbour.commands.run("python3 -m http.server 8000", { background: true });
  await expect
    .poll(async () => fetchFrom(neighbour, `http://${address}:8000/`))
    .toContain("Directory");
  expect(await fetchFrom(sandbox, `http://${address}:8000/`)).toMatch(FAILED);
  expect(await inside(sandbox, `ping -c 1 -W 1 ${address}`)).not.toContain(" 0% packet loss");
});

test("there is no IPv6 beyond loopback", async () => {
  expect(await inside(sandbox, "grep eth0 /proc/net/if_inet6")).toBe("");
  expect(await fetchFrom(sandbox, "http://[fd00:ec2::254]/")).toMatch(FAILED);
});

test("root inside cannot change its address, routes or links, nor send as somebody else", async () => {
  const program = `
import fcntl, socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
def attempt(name, act):
    try:
        act(); print(name, "done")
    except OSError as error:
        print(name, error.strerror)
spoofed = struct.pack("16sHH4s8x", b"eth0", socket.AF_INET, 0, socket.inet_aton("198.18.200.1"))
attempt("address", lambda: fcntl.ioctl(s, 0x8916, spoofed))
attempt("down", lambda: fcntl.ioctl(s, 0x8914, struct.pack("16sH22x", b"eth0", 0)))
attempt("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 17))
attempt("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
attempt("spoof", lambda: (s.setsockopt(0, 15, 1), s.bind(("198.18.200.1", 0))))
attempt("transparent", lambda: s.setsockopt(0, 19, 1))
`;
  await sandbox.files.write("/tmp/attack.py", program);
  const lines = (await inside(sandbox, "python3 /tmp/attack.py")).split("\n");
  expect(lines.toSorted()).toEqual([
    "address Operation not permitted",
    "down Operation not permitted",
    "packet Operation not permitted",
    "raw Operation not permitted",
    "spoof done",
    "transparent Operation not permitted",
  ]);
  // IP_FREEBIND lets anybody bind a foreign address; what is sent from it must not get anywhere.
  const before = await lab.received();
  const spoof = `import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.setsockopt(0, 15, 1); s.bind(('198.18.200.1', 0)); s.sendto(b'x', ('${LAB.publicHost}', ${LAB.port}))`;
  await inside(sandbox, `python3 -c "${spoof}"`);
  await inside(sandbox, `python3 -c "${spoof}"`);
  expect(await lab.received()).toBe(before);
});

test("without internet access not one packet leaves, names included", async () => {
  const wishes: SandboxOpts[] = [
    { allowInternetAccess: false },
    { network: { denyOut: [ALL] } },
    { network: { denyOut: ["0.0.0.0/1", "128.0.0.0/1"] } },
  ];
  for (const wish of wishes) {
    await using closed = await create(wish);
    const before = await lab.received();
    expect(await fetchFrom(closed, OPEN)).toMatch(FAILED);
    expect(await inside(closed, "getent ahostsv4 service.test || echo no name")).toBe("no name");
    for (const port of [53, 853, LAB.port]) {
      expect(await udpFrom(closed, LAB.nameServer, port)).toMatch(FAILED);
      expect(await udpFrom(closed, LAB.publicHost, port)).toMatch(FAILED);
    }
    expect(await inside(closed, `ping -c 1 -W 1 ${LAB.publicHost}`)).not.toContain(" 0% packet");
    expect(await lab.received()).toBe(before);
  }
});

test("allowOut wins over denyOut, by address and by network", async () => {
  await using narrow = await create({
    network: { allowOut: [`${LAB.publicHost}/32`], denyOut: [ALL] },
  });
  expect(await fetchFrom(narrow, OPEN)).toContain("far");
  expect(await fetchFrom(narrow, OTHER)).toMatch(FAILED);
  expect(await udpFrom(narrow, LAB.nameServer, 53)).toMatch(FAILED);
  await using wide = await create({
    network: { allowOut: ["198.51.100.7"], denyOut: ["198.51.100.0/24"] },
  });
  expect(await fetchFrom(wide, OTHER)).toContain("far");
  await using denied = await create({ network: { denyOut: ["198.51.100.99/24"] } });
  expect(await fetchFrom(denied, OTHER)).toMatch(FAILED);
  expect(await fetchFrom(denied, OPEN)).toContain("far");
});

test("a domain in allowOut is refused rather than ignored", async () => {
  const wish = { network: { allowOut: ["example.com"], denyOut: [ALL] } };
  await expect(Sandbox.create("base", { ...options, ...wish })).rejects.toThrow(
    /domains in allowOut are not available/,
  );
});

test("rules change on a running sandbox, for its connections too, and stay over pause", async () => {
  await using changing = await create({});
  await changing.commands.run(
    `python3 -c "
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(0.2); s.connect(('${LAB.publicHost}', ${LAB.port}))
while True:
    try: s.send(b'tick'); s.recv(99); out = 'open'
    except OSError: out = 'shut'
    open('/tmp/flow', 'w').write(out); time.sleep(0.05)
"`,
    { background: true, timeoutMs: 0 },
  );
  const flow = async () => inside(changing, "cat /tmp/flow");
  await expect.poll(flow).toBe("open");
  await changing.updateNetwork({ denyOut: [`${LAB.publicHost}/32`] });
  await expect.poll(flow).toBe("shut");
  expect(await fetchFrom(changing, OPEN)).toMatch(FAILED);
  expect(await fetchFrom(changing, OTHER)).toContain("far");
  await changing.pause();
  await changing.connect();
  expect(await fetchFrom(changing, OPEN)).toMatch(FAILED);
  const pause = `${serve.url}/sandboxes/${changing.sandboxId}/pause`;
  const headers = { "content-type": "application/json", "x-api-key": serve.apiKey };
  const paused = await fetch(pause, { method: "POST", headers, body: '{"memory":false}' });
  expect(await paused.text()).toBe("");
  expect(
    serve.program
      .stderr()
      .split("\n")
      .filter((line) => line.includes('level":50')),
  ).toEqual([]);
  await changing.connect();
  expect(await fetchFrom(changing, OPEN)).toMatch(FAILED);
  expect(await fetchFrom(changing, OTHER)).toContain("far");
  await changing.updateNetwork({ allowInternetAccess: false });
  expect(await inside(changing, "grep -c : /proc/net/dev")).toBe("1");
  await changing.updateNetwork({ allowInternetAccess: true });
  expect(await fetchFrom(changing, OPEN)).toContain("far");
});

test("a service that was killed leaves links and rules, and the next one takes them away", async () => {
  const others = await lab.traces();
  const killed = await startServe(labFlags());
  const its = { apiKey: killed.apiKey, apiUrl: killed.url, sandboxUrl: killed.url };
  const orphan = await Sandbox.create("base", its);
  expect(await fetchFrom(orphan, OPEN)).toContain("far");
  expect(await lab.traces()).not.toEqual(others);
  killed.program.child.kill("SIGKILL");
  await killed.program.exited();
  await using gc = startGc(killed.home);
  expect(await gc.exited()).toBe(0);
  expect(await lab.traces()).toEqual(others);
  // Of its own alone: other sandboxes of this machine come and go meanwhile.
  const left = await takeCensus({ home: killed.home, idPrefix: orphan.sandboxId });
  const nothing = { processes: [], loopDevices: [], cgroups: [], idClaims: [], routers: [] };
  expect(left).toMatchObject(nothing);
  await killed[Symbol.asyncDispose]();
});

test("with the last sandbox everything is as it was before the first", async () => {
  await sandbox.kill();
  await expect.poll(async () => lab.traces()).toEqual(untouched);
  sandbox = await Sandbox.create("base", options);
  expect(await fetchFrom(sandbox, OPEN)).toContain("far");
});

function startGc(home: string): TestProgram {
  return startProgram(["gc", "--home", home]);
}
