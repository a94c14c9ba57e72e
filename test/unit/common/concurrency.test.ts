/** Limits on what is under way at once. */

import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { createGate } from "../../../src/common/concurrency.ts";

test.for([0, 1, 2, 3, 4, 5])(
  "a task that comes %i turns after another ends waits for its own turn",
  async (turns) => {
    const gate = createGate(1);
    const end = Promise.withResolvers<void>();
    const running: string[] = [];
    let most = 0;
    const task = (name: string, until: Promise<void>) => async () => {
      running.push(name);
      most = Math.max(most, running.length);
      await until;
      running.splice(running.indexOf(name), 1);
    };
    const later = Promise.withResolvers<void>();
    const tasks = [gate.run(task("first", end.promise)), gate.run(task("second", later.promise))];
    let turn: Promise<void> = end.promise;
    for (let count = 0; count < turns; count += 1) turn = turn.then(() => undefined);
    tasks.push(turn.then(async () => gate.run(task("third", later.promise))));
    end.resolve();
    await tasks[0];
    await nextTurn();
    later.resolve();
    await Promise.all(tasks);
    expect(most).toBe(1);
  },
);
