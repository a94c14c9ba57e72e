/** Rules that name hosts: what they open, what stays shut, and how long they hold. */

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { causeCode } from "../../../src/common/errors.ts";
import { LAB } from "../../support/network/lab.ts";
import { listenersAround } from "../../support/network/listeners.ts";
import { tellCells } from "../../support/run/cells.ts";
import { IS_WHOLE_RUN } from "../../support/runtimes.ts";
import {
  ALL,
  FAILED,
  fetchFrom,
  inside,
  namePrograms,
  OPEN,
  udpFrom,
  type Field,
  type Ground,
  type OwnSandbox,
} from "./ground.ts";

const [SIGCONT, SIGSTOP] = [18, 19];
/** By number: SIGUSR1, SIGUSR2, SIGQUIT, SIGSTOP and a real-time one; in a whole run all. */
const SIGNALS = IS_WHOLE_RUN
  ? Array.from({ length: 64 }, (_, index) => index + 1)
  : [10, 12, 3, SIGSTOP, 40];
const SETTLE_MS = 500;
const RAW = join(import.meta.dirname, "raw.py");
const PATTERNS = ["allowed.test", "*.wild.test", "mixed.test", "moving.test", "BÜCHER.test"];

export function describeNames(ground: () => Field): void {
  describe("hostnames", () => {
    let named: OwnSandbox;

    beforeAll(async () => {
      named = await ground().createFor(PATTERNS);
      await named.files.write("/tmp/raw.py", await readFile(RAW, "utf8"));
    });

    afterAll(async () => named[Symbol.asyncDispose]());

    /** What the far side saw of a request, or what curl says. */
    const curl = async (words: string, target = named) =>
      inside(target, `curl -sS -k -m 4 ${words}`);

    test("a named host answers over HTTP and TLS, and is told what was asked", async () => {
      expect(await curl("'http://allowed.test/path?query=1' -d body")).toBe(
        `{"at":"${LAB.publicHost}","method":"POST","url":"/path?query=1","host":"allowed.test","size":4}`,
      );
      expect(await curl("https://allowed.test/")).toContain(`"at":"${LAB.publicHost}"`);
      expect(await curl("http://a.wild.test/")).toContain('"host":"a.wild.test"');
      expect(await curl("https://b.a.wild.test/")).toContain('"host":"b.a.wild.test"');
      expect(await curl("http://xn--bcher-kva.test/")).toContain(`"at":"${LAB.otherHost}"`);
    });

    test("a megabyte passes", async () => {
      await inside(named, "head -c 1048576 /dev/urandom > /tmp/big");
      expect(await curl("http://allowed.test/ --data-binary @/tmp/big")).toContain(
        '"size":1048576',
      );
      expect(await curl("https://allowed.test/ -T /tmp/big")).toContain('"size":1048576');
    });

    test("what is not named has no address and no way, whatever the port", async () => {
      expect(await inside(named, "getent ahostsv4 allowed.test | head -n 1")).toContain(
        LAB.publicHost,
      );
      for (const name of [
        "other.test",
        "wild.test",
        "allowed.test.other.test",
        "notallowed.test",
      ]) {
        expect(await inside(named, `getent ahostsv4 ${name} || echo no name`)).toBe("no name");
      }
      expect(await curl("http://other.test/")).toMatch(/Could not resolve/);
      expect(await fetchFrom(named, OPEN)).toMatch(FAILED);
      expect(await fetchFrom(named, `http://allowed.test:${LAB.port}/`)).toMatch(FAILED);
      expect(await udpFrom(named, LAB.publicHost, 443)).toMatch(FAILED);
      expect(await udpFrom(named, LAB.nameServer, 53)).toMatch(FAILED);
      expect(await inside(named, `ping -c 1 -W 1 ${LAB.publicHost}`)).not.toContain(" 0% packet");
    });

    test("addresses beside names keep their meaning", async () => {
      await using both = await ground().createFor(["allowed.test", `${LAB.otherHost}/32`]);
      expect(await curl("http://allowed.test/", both)).toContain(`"at":"${LAB.publicHost}"`);
      expect(await fetchFrom(both, `http://${LAB.otherHost}:${LAB.port}/`)).toContain("far");
      expect(await curl(`http://${LAB.otherHost}/`, both)).toContain(`"at":"${LAB.otherHost}"`);
      expect(await curl(`http://${LAB.publicHost}/`, both)).toMatch(/names no host/);
    });

    test("a name is asked for anew when its time is over", async () => {
      expect(await curl("http://moving.test/")).toContain(LAB.publicHost);
      await expect.poll(() => curl("http://moving.test/")).toContain(LAB.otherHost);
    });

    test("E40 only addresses of an allowed name are dialled, however it is dressed", async () => {
      const before = await ground().lab.received();
      const outcomes = await inside(named, "python3 /tmp/raw.py");
      expect(JSON.parse(outcomes)).toEqual(DRESSES);
      expect(await ground().lab.received()).toBeGreaterThan(before);
      // A name of which some addresses are out of bounds leads to the others.
      expect(await curl("http://mixed.test/")).toContain(`"at":"${LAB.otherHost}"`);
      await using lured = await ground().createFor([
        "metadata.test",
        "turning.test",
        "machine.test",
      ]);
      expect(await curl("http://metadata.test/", lured)).toMatch(
        /Could not resolve|does not answer/,
      );
      expect(await curl("http://machine.test/", lured)).toMatch(
        /Could not resolve|does not answer/,
      );
      // Pinned at first, and refused once the name leads to a private address.
      const turning = async () =>
        curl(`--resolve turning.test:80:${LAB.otherHost} http://turning.test/`, lured);
      expect(await turning()).toContain(`"at":"${LAB.publicHost}"`);
      await expect.poll(turning).toContain("does not answer");
    });

    test("E40 control: the same requests pass where every name is allowed", async () => {
      await using all = await ground().createFor(["*"]);
      await all.files.write("/tmp/raw.py", await readFile(RAW, "utf8"));
      const open: unknown = JSON.parse(await inside(all, "python3 /tmp/raw.py"));
      expect(open).toMatchObject({
        "other name": LAB.otherHost,
        "other server name": LAB.otherHost,
      });
    });

    test("names change on a running sandbox, for its connections too", async () => {
      await using changing = await ground().createFor(["allowed.test"]);
      await changing.files.write("/tmp/raw.py", await readFile(RAW, "utf8"));
      await changing.commands.run("python3 /tmp/raw.py flow", { background: true, timeoutMs: 0 });
      const flow = async () => inside(changing, "cat /tmp/flow");
      await expect.poll(flow).toBe("open");
      await changing.updateNetwork({ allowOut: ["other.test"], denyOut: [ALL] });
      await expect.poll(flow).toBe("shut");
      expect(await curl("http://other.test/", changing)).toContain(`"at":"${LAB.otherHost}"`);
      expect(await curl("http://allowed.test/", changing)).toMatch(/Could not resolve/);
      await changing.pause();
      await changing.connect();
      expect(await curl("http://other.test/", changing)).toContain(`"at":"${LAB.otherHost}"`);
      expect(await curl("http://allowed.test/", changing)).toMatch(/Could not resolve/);
      await changing.updateNetwork({});
      expect(await curl("http://allowed.test/", changing)).toContain(`"at":"${LAB.publicHost}"`);
      expect(await fetchFrom(changing, OPEN)).toContain("far");
    });

    test("the program for names has no rights, and is there again when it dies", async () => {
      const [pid] = await namePrograms(ground());
      const status = await readFile(`/proc/${pid}/status`, "utf8");
      expect(status).toMatch(/^CapEff:\t0+$/m);
      expect(status).toMatch(/^CapPrm:\t0+$/m);
      expect(status).toMatch(/^NoNewPrivs:\t1$/m);
      expect(status).toMatch(/^Groups:\t *$/m);
      process.kill(Number(pid), "SIGKILL");
      await expect.poll(() => curl("http://allowed.test/")).toContain(`"at":"${LAB.publicHost}"`);
      expect(await namePrograms(ground())).not.toContain(pid);
    });

    test.for(["idle", "under calls"])(
      "E42 no signal opens a port of the program for names, %s",
      async (state, context) => {
        const calls =
          "while :; do curl -sS -k -m 4 -o /dev/null http://allowed.test/ https://allowed.test/; done";
        const caller =
          state === "idle"
            ? undefined
            : await named.commands.run(calls, { background: true, timeoutMs: 0 });
        const { serve, account } = ground();
        const listening = async () => {
          const [pid] = await namePrograms({ serve, account });
          return pid === undefined ? [] : listenersAround(pid);
        };
        const before = await listening();
        expect(before.length).toBeGreaterThan(0);
        for (const signal of SIGNALS) {
          // It goes on, or another one takes its place.
          await expect.poll(async () => signalOne(ground(), signal)).toBe(true);
          if (signal === SIGSTOP) await signalOne(ground(), SIGCONT);
          await expect.poll(listening, { message: `signal ${signal}` }).toEqual(before);
        }
        await caller?.kill();
        await expect.poll(() => curl("http://allowed.test/")).toContain(`"at":"${LAB.publicHost}"`);
        tellCells(context, SIGNALS.length);
      },
    );

    test("names hold again once a service that was killed is back, and not meanwhile", async () => {
      const before = await settled(() => ground().lab.received());
      await ground().restart(async () => {
        // It dies with the service, a moment after it.
        await expect.poll(async () => namePrograms(ground())).toEqual([]);
        expect(await ground().lab.received()).toBe(before);
      });
      expect(await curl("http://allowed.test/")).toContain(`"at":"${LAB.publicHost}"`);
      expect(await curl("https://a.wild.test/")).toContain(`"at":"${LAB.publicHost}"`);
      expect(await curl("http://other.test/")).toMatch(/Could not resolve/);
      expect(await fetchFrom(named, OPEN)).toMatch(FAILED);
      expect(await ground().lab.received()).toBeGreaterThan(before);
    });
  });
}

/** A count once it has not changed for a moment: what was sent before is on its way. */
async function settled(count: () => Promise<number>): Promise<number> {
  let last = await count();
  for (;;) {
    await delay(SETTLE_MS);
    const next = await count();
    if (next === last) return last;
    last = next;
  }
}

/** Whether a program of the ground was there to be signalled. */
async function signalOne(ground: Ground, signal: number): Promise<boolean> {
  const [pid] = await namePrograms(ground);
  try {
    return pid !== undefined && process.kill(pid, signal);
  } catch (error) {
    if (causeCode(error) === "ESRCH") return false;
    throw error;
  }
}

/** What the far side says about each request of raw.py: the address that was dialled, or a refusal. */
const DRESSES = {
  plain: LAB.publicHost,
  "trailing dot": LAB.publicHost,
  "upper case": LAB.publicHost,
  "its own port": LAB.publicHost,
  "hidden in a body": "400",
  "one connection, two hosts": `${LAB.publicHost} 403`,
  "both at once": `${LAB.publicHost} 403`,
  "other name": "403",
  "leading line ends": "403",
  "two trailing dots": "400",
  "not ASCII": "400",
  "Kelvin sign": "400",
  user: "400",
  "other port": "400",
  address: "400",
  "address as a number": "400",
  "two hosts": "400",
  "two equal hosts": "400",
  "no host": "400",
  "old version": "400",
  "absolute form": "400",
  "odd coding": "400",
  NUL: "400",
  "two lengths": "400",
  "no HTTP": "400",
  CONNECT: "closed",
  "server name": LAB.publicHost,
  "server name, other host": LAB.publicHost,
  "server name in pieces": "answered",
  "server name in upper case": "answered",
  "server name with a dot": "answered",
  "other server name": "denied",
  "no server name": "denied",
  "server name with NUL": "denied",
  "server name with a user": "denied",
};
