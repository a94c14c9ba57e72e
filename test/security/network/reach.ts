/** What sandboxes reach with rules of addresses and networks, and what leaves them without any. */

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { Sandbox } from "e2b";
import { describe, expect, test } from "vitest";
import { takeCensus } from "../../support/census.ts";
import { openTestHome } from "../../support/home.ts";
import { startMcpClient } from "../../support/mcp/mcp-client.ts";
import { LAB } from "../../support/network/lab.ts";
import { PROGRAM, startProgram } from "../../support/program.ts";
import { startServe } from "../../support/serve.ts";
import {
  ALL,
  egressPrograms,
  FAILED,
  fetchFrom,
  inside,
  OPEN,
  OTHER,
  udpFrom,
  type Field,
} from "./ground.ts";

const [IP_FREEBIND, IP_TRANSPARENT] = [15, 19];

export function describeReach(ground: () => Field): void {
  describe("addresses and networks", () => {
    test("a public host answers over TCP and UDP, and sees the machine as the sender", async () => {
      expect(await fetchFrom(ground().sandbox, OPEN)).toBe(
        `far ${LAB.publicHost} saw ${LAB.machine}`,
      );
      expect(await udpFrom(ground().sandbox, LAB.publicHost, LAB.port)).toBe("b'far knock'");
      expect(await fetchFrom(ground().sandbox, OTHER)).toContain(LAB.otherHost);
    });

    test("names are resolved by the name server of the machine", async () => {
      expect(await inside(ground().sandbox, "getent ahostsv4 service.test | head -n 1")).toContain(
        LAB.publicHost,
      );
      expect(await fetchFrom(ground().sandbox, `http://service.test:${LAB.port}/`)).toContain(
        "far",
      );
    });

    test("there is no IPv6 beyond loopback", async () => {
      expect(await inside(ground().sandbox, "grep eth0 /proc/net/if_inet6")).toBe("");
      expect(await fetchFrom(ground().sandbox, "http://[fd00:ec2::254]/")).toMatch(FAILED);
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
      await ground().sandbox.files.write("/tmp/attack.py", program);
      const lines = (await inside(ground().sandbox, "python3 /tmp/attack.py")).split("\n");
      const done = lines.filter((line) => line.endsWith(" done"));
      const refused = lines.filter((line) => !done.includes(line));
      // A kernel of its own refuses with errors of its own, and takes an option that it does not heed.
      const isOwn = ground().hasOwnKernel;
      const expected = ["address", "down", "packet", "raw", ...(isOwn ? [] : ["transparent"])];
      expect(refused.map((line) => line.split(" ")[0])).toEqual(expect.arrayContaining(expected));
      expect(lines).toHaveLength(6);
      expect(isOwn || refused.every((line) => line.endsWith("Operation not permitted"))).toBe(true);
      // IP_FREEBIND lets anybody bind a foreign address; what is sent from it must not get anywhere.
      const before = await ground().lab.received();
      for (const option of [IP_FREEBIND, IP_TRANSPARENT, IP_FREEBIND]) {
        const spoof = `import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.setsockopt(0, ${option}, 1); s.bind(('198.18.200.1', 0)); s.sendto(b'x', ('${LAB.publicHost}', ${LAB.port}))`;
        await inside(ground().sandbox, `python3 -c "${spoof}"`);
      }
      expect(await ground().lab.received()).toBe(before);
    });

    test("allowOut wins over denyOut, by address and by network", async () => {
      await using narrow = await ground().create({
        network: { allowOut: [`${LAB.publicHost}/32`], denyOut: [ALL] },
      });
      expect(await fetchFrom(narrow, OPEN)).toContain("far");
      expect(await fetchFrom(narrow, OTHER)).toMatch(FAILED);
      expect(await udpFrom(narrow, LAB.nameServer, 53)).toMatch(FAILED);
      await using wide = await ground().create({
        network: { allowOut: ["198.51.100.7"], denyOut: ["198.51.100.0/24"] },
      });
      expect(await fetchFrom(wide, OTHER)).toContain("far");
      await using denied = await ground().create({ network: { denyOut: ["198.51.100.99/24"] } });
      expect(await fetchFrom(denied, OTHER)).toMatch(FAILED);
      expect(await fetchFrom(denied, OPEN)).toContain("far");
    });

    test("rules change on a running sandbox, for its connections too, and stay over pause", async () => {
      await using changing = await ground().create({});
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
      const pause = `${ground().serve.url}/sandboxes/${changing.sandboxId}/pause`;
      const headers = { "content-type": "application/json", "x-api-key": ground().serve.apiKey };
      const paused = await fetch(pause, { method: "POST", headers, body: '{"memory":false}' });
      expect(await paused.text()).toBe("");
      expect(
        ground()
          .serve.program.stderr()
          .split("\n")
          .filter((line) => line.includes('level":50')),
      ).toEqual([]);
      await changing.connect();
      expect(await fetchFrom(changing, OPEN)).toMatch(FAILED);
      expect(await fetchFrom(changing, OTHER)).toContain("far");
      await changing.updateNetwork({ allowInternetAccess: false });
      // A kernel of its own keeps its link, whose router refuses every packet.
      const links = ground().hasOwnKernel ? "2" : "1";
      expect(await inside(changing, "grep -c : /proc/net/dev")).toBe(links);
      expect(await fetchFrom(changing, OPEN)).toMatch(FAILED);
      await changing.updateNetwork({ allowInternetAccess: true });
      expect(await fetchFrom(changing, OPEN)).toContain("far");
    });

    test("a machine without nftables gives no internet, and says so", async () => {
      await using home = await openTestHome();
      const flags = ["--home", home.path, "--egress", ground().lab.namespace];
      const hide = 'mount --bind /dev/null "$(command -v nft)" && exec "$@"';
      const program = ["unshare", "-m", "sh", "-c", hide, "sh", process.execPath, PROGRAM] as const;
      await using client = await startMcpClient(flags, {}, [...program]);
      const { fields } = await client.call("create_sandbox", {});
      expect(fields["note"]).toMatch(/^no internet in it: this machine has no way out/);
      const [command, ...words] = program;
      const { stdout } = await promisify(execFile)(command, [...words, "doctor", ...flags]);
      expect(stdout).toMatch(
        /internet: sandboxes have loopback alone: no nft .*install.* nftables/,
      );
    });

    test("a service that was killed leaves links and rules, and the next one takes them away", async () => {
      const others = await ground().lab.traces();
      const before = await takeCensus();
      const killed = await startServe(ground().flags);
      const its = { apiKey: killed.apiKey, apiUrl: killed.url, sandboxUrl: killed.url };
      const network = { allowOut: [LAB.publicHost, "allowed.test"], denyOut: [ALL] };
      const orphan = await Sandbox.create("base", { ...its, network });
      expect(await fetchFrom(orphan, OPEN)).toContain("far");
      expect(await ground().lab.traces()).not.toEqual(others);
      expect(await egressPrograms(killed.home)).toHaveLength(1);
      killed.program.child.kill("SIGKILL");
      await killed.program.exited();
      await expect.poll(() => egressPrograms(killed.home)).toEqual([]);
      await using gc = startProgram(["gc", "--home", killed.home]);
      expect(await gc.exited()).toBe(0);
      expect(await ground().lab.traces()).toEqual(others);
      const { folders: _folders, sockets: _sockets, ...nothing } = before;
      expect(await takeCensus(killed.home)).toMatchObject(nothing);
      await killed[Symbol.asyncDispose]();
    });
  });
}
