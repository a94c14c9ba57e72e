/** Watches that nobody fetches from give way before the daemon's memory does. */

import { expect, test } from "vitest";
import { EventQueue } from "../../../src/envd/queue.ts";
import { WatchBacklog } from "../../../src/envd/watch/watch-backlog.ts";

const MIB = 1_048_576;

function setUp() {
  const backlog = new WatchBacklog<string>();
  const ended: string[] = [];
  const create = (name: string) => {
    const queue = new EventQueue<string>(() => backlog.settle(queue));
    backlog.open(queue, () => void ended.push(name));
    return (mib: number) => {
      queue.push(name, mib * MIB);
      backlog.settle(queue);
      return queue;
    };
  };
  return { backlog, ended, create };
}

test("the fullest queue fails, whoever was the last to fill", () => {
  const { ended, create } = setUp();
  const large = create("large");
  const small = create("small");
  const abandoned = large(10);
  const busy = small(5);
  expect(ended).toEqual([]);
  small(2);
  expect(ended).toEqual(["large"]);
  expect(() => abandoned.drain(1)).toThrow("watcher error: queue or buffer overflow");
  expect(busy.drain(10 * MIB)).toEqual(["small", "small"]);
});

test("what was fetched, and what was closed, counts no more", () => {
  const { backlog, ended, create } = setUp();
  const first = create("first");
  first(15).drain(1);
  const second = create("second");
  backlog.close(second(15));
  first(15);
  expect(ended).toEqual([]);
});
