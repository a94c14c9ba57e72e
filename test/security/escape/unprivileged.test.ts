/**
 * What the sandboxes of an ordinary user stand: without cgroups what limits single users and files is
 * all there is, and there is no way out but the gateway's. Only a whole run makes the account.
 */

import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer, type NetConnectOpts, type Server } from "node:net";
import { networkInterfaces } from "node:os";
import { Sandbox } from "e2b";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { startRange, type AttackRange, type Outcomes } from "../../support/hostile/attack-range.ts";
import { IS_WHOLE_RUN } from "../../support/runtimes.ts";
import { answered, attack, inside, type Attempt } from "../network/ground.ts";

const PIDS = 128;
const DISK_MB = 64;
const USERS = ["root", "user"];
const BOMB_SECONDS = 5;
const HOLD_SECONDS = 60;
/** The others the kernel counts for a user of the machine: all sandboxes have the same users there. */
const TABLES = "descriptors epoll terminals segments locked".split(" ");
/** With the layer of the template, as many as a build may have. */
const SNAPSHOTS = 24;
const SQUASH_LIMIT_MS = 300_000;
const PUBLIC = ["1.1.1.1", "10.1.2.3", "169.254.169.254", "fd00:ec2::254"];

describe.runIf(IS_WHOLE_RUN)("on crun without root", () => {
  let range: AttackRange;

  beforeAll(async () => {
    const place = { name: "crun without root", runtime: "crun", isRootless: true };
    range = await startRange(place, ["--pids", String(PIDS), "--disk-mb", String(DISK_MB)]);
  });

  afterEach(async () => range.check());

  afterAll(async () => range[Symbol.asyncDispose]());

  test.for(USERS)("E26 forks of %s end at the limit, while the neighbour answers", async (user) => {
    const words = [BOMB_SECONDS, 4 * PIDS];
    const bomb = range.attack({ program: "resources", id: "E26", words }, user);
    await range.check();
    const { processes } = await bomb;
    expect(Number(processes)).toBeGreaterThan(PIDS / 2);
    expect(Number(processes)).toBeLessThan(PIDS);
  });

  test.for(USERS)("E28 a file of %s ends at the size of a disk", async (user) => {
    const words = [`/var/tmp/${user}`, 2 * DISK_MB, "fill", "fallocate", "sparse"];
    expect(await range.attack({ program: "resources", id: "E28", words }, user)).toEqual({
      fill: "EFBIG",
      fallocate: "EFBIG",
      sparse: "EFBIG",
    });
  });

  test.for(USERS)(
    "E29 what %s uses up of the tables that are not counted by user is not the neighbour's",
    async (user) => {
      for (const table of TABLES) {
        await using held = await hold(table, user);
        const attempt = { program: "resources", id: "E29-little" };
        const outcomes = await range.attack(attempt, "root", range.neighbour);
        expect({ table, held: held.told, outcome: outcomes[table] }).toMatchObject({
          outcome: "ok",
        });
      }
    },
  );

  test("E36 no listener of the host answers", async () => {
    await using server = await listen();
    await Promise.all([{ port: server.port }, { path: `\0${server.abstract}` }].map(reach));
    expect(server.count()).toBe(2);
    const own = Object.values(networkInterfaces()).flatMap((links = []) => links);
    const hosts = ["0.0.0.0", ...own.map(({ address }) => address)];
    const attempts = [
      ...hosts.map((host): Attempt => ["tcp", host, server.port]),
      ["abstract", server.abstract, 0] as const,
    ];
    expect(answered(await attack(range.sandbox, attempts))).toEqual([]);
    expect(server.count()).toBe(2);
  });

  test("E37 E38 E39 there is no link but loopback, and nothing leaves by it", async () => {
    const attempts = PUBLIC.flatMap((host): Attempt[] => [
      ["tcp", host, 80],
      ["udp", host, 53],
      ["icmp", host, 0],
    ]);
    expect(
      answered(await attack(range.sandbox, [...attempts, ["name", "example.com", 0]])),
    ).toEqual([]);
    expect(await inside(range.sandbox, "grep -c : /proc/net/dev; wc -l < /proc/net/route")).toBe(
      "1\n1",
    );
  });

  test(
    "a chain of snapshots that is too long becomes one layer",
    { timeout: SQUASH_LIMIT_MS },
    async () => {
      let template = "base";
      for (let link = 1; link <= SNAPSHOTS; link += 1) {
        const sandbox = await Sandbox.create(template, range.options);
        await sandbox.files.write(`/home/user/link${link}`, `link ${link}`);
        if (link > 1) await sandbox.files.remove(`/home/user/link${link - 1}`);
        const { snapshotId } = await sandbox.createSnapshot();
        await sandbox.kill();
        if (template !== "base") await Sandbox.deleteSnapshot(template, range.options);
        template = snapshotId;
      }
      const last = await Sandbox.create(template, range.options);
      expect(await inside(last, "ls -A /home/user | grep link; cat /home/user/link*")).toBe(
        `link${SNAPSHOTS}\nlink ${SNAPSHOTS}`,
      );
      expect(await inside(last, "stat -c %U:%a /home/user /root /tmp")).toBe(
        await inside(range.sandbox, "stat -c %U:%a /home/user /root /tmp"),
      );
      await last.kill();
      await Sandbox.deleteSnapshot(template, range.options);
    },
  );

  /** Uses a table up until the end of the block. */
  async function hold(table: string, user: string) {
    await inside(range.sandbox, "rm -f /dev/shm/held");
    let isOver = false;
    const over = (): Outcomes => {
      isOver = true;
      return {};
    };
    const words = [table, HOLD_SECONDS];
    // It is killed in the end, and then has nothing to say.
    const ended = range.attack({ program: "resources", id: "E29", words }, user).then(over, over);
    let told = "";
    await expect
      .poll(async () => {
        told = await inside(range.sandbox, "cat /dev/shm/held");
        return isOver || /^\d/.test(told);
      })
      .toBe(true);
    return {
      told,
      [Symbol.asyncDispose]: async () => {
        await inside(range.sandbox, "pkill -9 -f resources[.]py; rm -rf /var/tmp/watched-*");
        await ended;
      },
    };
  }
});

/** From the host itself there is an answer. */
async function reach(where: NetConnectOpts): Promise<void> {
  const socket = connect(where);
  await once(socket, "data");
  socket.destroy();
}

interface Listening extends AsyncDisposable {
  readonly port: number;
  /** Name of an abstract socket. */
  readonly abstract: string;
  /** Connections that were made. */
  count(): number;
}

/** A listener at every address of the host, and one without a file. */
async function listen(): Promise<Listening> {
  let count = 0;
  const open = async (where: object): Promise<Server> => {
    const server = createServer((socket) => {
      count += 1;
      socket.end("host greets");
    });
    server.listen(where);
    await once(server, "listening");
    return server;
  };
  const name = `range-${process.pid}`;
  const servers = [await open({ host: "::", port: 0 }), await open({ path: `\0${name}` })];
  const address = servers[0]?.address();
  assert.ok(typeof address === "object" && address !== null);
  return {
    port: address.port,
    abstract: name,
    count: () => count,
    async [Symbol.asyncDispose]() {
      for (const server of servers) {
        const closed = once(server, "close");
        server.close();
        await closed;
      }
    },
  };
}
