/**
 * R12: the same of a daemon that is being frozen, is frozen or is being thawed: a signal that meets it
 * in between opens no port, writes no file and brings no token to light, and its sandbox serves again.
 */

import assert from "node:assert/strict";
import { constants } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { causeCode } from "../../../src/common/errors.ts";
import { startRange, type AttackRange } from "../../support/hostile/attack-range.ts";
import {
  chooseSignals,
  daemonsIn,
  FIND_DAEMON,
  openSignalTarget,
  type SignalTarget,
} from "../../support/hostile/signal-target.ts";
import { createRandom, printedSeed, type Random } from "../../support/random.ts";
import { tellCells } from "../../support/run/cells.ts";
import { attackPlaces, hasOwnKernel, IS_WHOLE_RUN } from "../../support/runtimes.ts";

/** Of each state in an ordinary run; a whole one takes them as the tests of a running daemon do. */
const CASES_OF_ORDINARY = 3;
/** A pause or a resume takes about this long. */
const MOMENT_MS = 30;
/** What waits inside for so long is due while its sandbox is frozen. */
const DUE_MS = 100;

interface Frame {
  readonly target: SignalTarget;
  readonly random: Random;
  /** The PID namespace of the sandbox. */
  readonly namespace: string;
  readonly pause: () => Promise<void>;
  readonly resume: () => Promise<void>;
}

/** When a signal is sent, and by whom: root inside, or the machine, which no freezer stops. */
const STATES: Readonly<Record<string, (signal: number, frame: Frame) => Promise<void>>> = {
  "while it is being frozen": async (signal, { target, random, pause, resume }) => {
    const afterS = (1 + random.below(MOMENT_MS)) / 1_000;
    await target.sendInside(signal, FIND_DAEMON, afterS);
    await pause();
    await resume();
  },
  "while it is frozen": async (signal, { namespace, pause, resume }) => {
    await pause();
    await sendOutside(signal, namespace);
    await resume();
  },
  "in its first moment after it": async (signal, { target, pause, resume }) => {
    await target.sendInside(signal, FIND_DAEMON, DUE_MS / 1_000);
    await pause();
    await delay(DUE_MS);
    await resume();
  },
  "while it is being thawed": async (signal, { namespace, random, pause, resume }) => {
    await pause();
    const resumed = resume();
    await delay(random.below(MOMENT_MS));
    await sendOutside(signal, namespace);
    await resumed;
  },
};

/** The machine sees no process of a sandbox with a kernel of its own. */
const SENT_BY_THE_MACHINE = new Set(["while it is frozen", "while it is being thawed"]);

const SEED = printedSeed("signals in states");
const PLACES = attackPlaces().map((place, index) => ({
  ...place,
  takesAll: IS_WHOLE_RUN && index === 0,
}));

describe.each(PLACES)("on $name", (place) => {
  let range: AttackRange;
  let frame: Frame;

  beforeAll(async () => {
    range = await startRange(place);
    const target = await openSignalTarget(range);
    frame = {
      target,
      random: createRandom(SEED),
      namespace: (await target.run("readlink /proc/self/ns/pid")).trim(),
      pause: async () => changeState(range, "pause"),
      resume: async () => changeState(range, "connect"),
    };
  });

  afterAll(async () => range[Symbol.asyncDispose]());

  const isOwn = hasOwnKernel(place.runtime);
  test.for(Object.entries(STATES).filter(([state]) => !isOwn || !SENT_BY_THE_MACHINE.has(state)))(
    `E42 signals to the daemon %s, seed ${SEED}`,
    { timeout: 240_000 },
    async ([state, act], context) => {
      const { target, random } = frame;
      expect(await daemonsIn(frame.namespace)).toHaveLength(isOwn ? 0 : 1);
      const ports = await target.listening();
      const all = chooseSignals(random, place.takesAll);
      const chosen = IS_WHOLE_RUN ? all : all.slice(0, CASES_OF_ORDINARY);
      for (const signal of chosen) {
        await act(signal, frame);
        await target.sent();
        await target.serves();
        expect(await target.listening(), `ports after ${signal} ${state}`).toBe(ports);
      }
      await target.expectNothingNew(ports);
      tellCells(context, chosen.length);
    },
  );

  test("E42 a program that waits for its child to execute another holds up no pause", async () => {
    const { target } = frame;
    await target.run(`setsid python3 -c '${FORK}' >/dev/null 2>&1 &`);
    const isThere = "ps -eo stat,comm | grep -q '^D.*python3' && echo there";
    await expect.poll(async () => target.run(isThere).catch(String)).toBe("there\n");
    await frame.pause();
    await frame.resume();
    await target.serves();
    await target.run("pkill -9 python3");
  });
});

/** clone(2) with CLONE_VFORK and no shared memory. */
const FORK = `
import ctypes, platform, time
number = 220 if platform.machine() == "aarch64" else 56
ctypes.CDLL(None).syscall(number, 0x4000 | 17, 0, 0, 0, 0)
time.sleep(600)`;

async function changeState({ serve, sandbox }: AttackRange, to: "pause" | "connect") {
  const reply = await fetch(`${serve.url}/sandboxes/${sandbox.sandboxId}/${to}`, {
    method: "POST",
    headers: { "x-api-key": serve.apiKey, "content-type": "application/json" },
    body: JSON.stringify(to === "pause" ? {} : { timeout: 3_600 }),
  });
  assert.equal(reply.status, to === "pause" ? 204 : 201, await reply.text());
}

/** What stopped goes on once its sandbox is thawed: whoever is stopped cannot be. */
async function sendOutside(signal: number, namespace: string): Promise<void> {
  for (const pid of await daemonsIn(namespace)) {
    try {
      process.kill(pid, signal);
      if (signal === constants.signals.SIGSTOP) {
        await delay(MOMENT_MS);
        process.kill(pid, constants.signals.SIGCONT);
      }
    } catch (error) {
      // Outside of its freezer it may have ended at once.
      if (causeCode(error) !== "ESRCH") throw error;
    }
  }
}
