/** Attacks from inside a Pod: on its own listener, on the API server, on its neighbours. */

import { Sandbox } from "e2b";
import type { World } from "../world.ts";
import { clientOf } from "./faults.ts";

/** Prints the status of a request to the listener, for each form of a wrong pass. */
const REQUESTS = String.raw`
import socket, sys
def ask(head):
    s = socket.create_connection((sys.argv[1], 49982), 5)
    s.sendall(head.encode())
    s.settimeout(5)
    try: return s.recv(64).decode('latin1').split('\r\n')[0]
    except Exception as e: return repr(e)
up = 'Connection: Upgrade\r\nUpgrade: sandbox-mcp\r\nHost: x\r\n'
wrong = '1795000000000.' + 'a'*32 + '.' + 'A'*86
for target in ('/control', '/public', '/init', '/..', '/control?x'):
    print(ask(f'GET {target} HTTP/1.1\r\n{up}\r\n'))
    print(ask(f'GET {target} HTTP/1.1\r\n{up}x-sandbox-mcp-pass: {wrong}\r\n\r\n'))
print(ask('POST /init HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}'))
`;

const PLACES = String.raw`
ls /var/run/secrets/kubernetes.io 2>&1 | head -1
env | grep -c -i KUBERNETES
cat /proc/self/uid_map | awk '{print ($2 == 0) ? "host ids" : "own ids"}'
grep Seccomp: /proc/self/status | tr -d '\t'
sudo mount -t tmpfs x /mnt 2>&1 | head -1 | cut -c1-80
sudo mknod /tmp/d b 8 0 2>&1 | tail -1 | cut -c1-60
sudo sh -c 'echo 1 > /proc/sys/vm/overcommit_memory' 2>&1 | tail -1 | cut -c1-80
sudo dmesg 2>&1 | tail -1 | cut -c1-60
`;

async function addressOf(sandbox: Sandbox): Promise<string> {
  return (await sandbox.commands.run("hostname -i")).stdout.trim();
}

export async function runAttacks(world: World): Promise<void> {
  const options = clientOf(world.url, world.apiKey);
  await using stack = new AsyncDisposableStack();
  const [own, other] = [await Sandbox.create(options), await Sandbox.create(options)];
  stack.defer(async () => void (await Promise.all([own.kill(), other.kill()])));
  await own.files.write("/tmp/requests.py", REQUESTS);
  for (const [name, target] of [
    ["its own", own],
    ["a neighbour's", other],
  ] as const) {
    await world.check(`attack: the listener of ${name} Pod without a pass`, async () => {
      const run = `sudo python3 /tmp/requests.py ${await addressOf(target)}`;
      const { stdout } = await own.commands.run(run);
      const lines = stdout.trim().split("\n");
      const odd = lines.filter((line) => !line.startsWith("HTTP/1.1 401"));
      if (odd.length > 0 || lines.length < 11) throw new Error(stdout);
      return `${lines.length} times 401`;
    });
  }
  await world.check("attack: what a Pod finds of its cluster and its host", async () => {
    const { stdout } = await own.commands.run(PLACES);
    const expected = [/No such file/, /^0$/, /own ids/, /Seccomp:2/, /./, /./, /./, /./];
    const lines = stdout.trim().split("\n");
    const refused = /permission denied|operation not permitted|read-only|not permitted/i;
    const isHeld = expected.every((pattern, index) => pattern.test(lines[index] ?? ""));
    if (!isHeld || !lines.slice(4).every((line) => refused.test(line))) throw new Error(stdout);
    return lines.join(" | ");
  });
  await world.check(
    "attack: no port of the daemon but the listener is open to the network",
    async () => {
      const address = await addressOf(other);
      const { stdout } = await own.commands.run(
        `for port in 49983 3490 22 80; do timeout 3 bash -c "</dev/tcp/${address}/$port" 2>/dev/null && echo $port; done; true`,
      );
      if (stdout !== "") throw new Error(`open: ${stdout}`);
    },
  );
  await world.check("rules of egress are refused where no plugin enforces them", async () => {
    const made = Sandbox.create({ ...options, allowInternetAccess: false });
    const outcome = await made.then(
      (sandbox) => `created ${sandbox.sandboxId}`,
      (error: unknown) => String(error),
    );
    if (!outcome.includes("enforces no NetworkPolicy")) throw new Error(outcome);
    return outcome;
  });
  await world.check(
    "attack: the daemon killed from inside comes back and is told again",
    async () => {
      await own.commands.run("sudo pkill -9 -f daemon.cjs").catch(() => undefined);
      const { stdout } = await eventuallyRun(own);
      if (stdout !== "again\n") throw new Error(stdout);
    },
  );
}

async function eventuallyRun(sandbox: Sandbox) {
  for (let round = 0; ; round += 1) {
    try {
      return await sandbox.commands.run("echo again");
    } catch (error) {
      if (round > 20) throw error;
      await new Promise((resolve) => {
        setTimeout(resolve, 250);
      });
    }
  }
}
