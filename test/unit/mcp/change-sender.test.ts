/** Changes for a host that takes nothing: held once each, and at most so many. */

import { expect, test } from "vitest";
import { createChangeSender } from "../../../src/mcp/watch/change-sender.ts";

function startSender() {
  const sent: string[] = [];
  const waits: (() => void)[] = [];
  const send = async (key: string): Promise<void> => {
    sent.push(key);
    const { promise, resolve } = Promise.withResolvers<void>();
    waits.push(resolve);
    await promise;
  };
  const faults: unknown[] = [];
  const sender = createChangeSender({
    sendUpdated: send,
    sendListChanged: () => send("list"),
    onFault: (error) => void faults.push(error),
  });
  const takeAll = async (): Promise<void> => {
    for (let wake = waits.shift(); wake !== undefined; wake = waits.shift()) {
      wake();
      await new Promise(setImmediate);
    }
  };
  return { sender, sent, takeAll, faults };
}

test("changes of one resource while another is on its way are one", async () => {
  const { sender, sent, takeAll } = startSender();
  sender.updated("a");
  for (let count = 0; count < 100; count += 1) {
    sender.updated("b");
    sender.updated("a");
    sender.listChanged();
  }
  expect(sent).toEqual(["a"]);
  await takeAll();
  expect(sent).toEqual(["a", "b", "a", "list"]);
  sender.updated("b");
  expect(sent.at(-1)).toBe("b");
});

test("a host that takes nothing is owed a bounded number", async () => {
  const { sender, sent, takeAll } = startSender();
  for (let count = 0; count < 10_000; count += 1) sender.updated(`log-${count}`);
  sender.listChanged();
  await takeAll();
  expect(sent).toHaveLength(514);
  expect(sent.at(-1)).toBe("list");
});

test("a change that cannot be sent holds up no other", async () => {
  const sent: string[] = [];
  const faults: unknown[] = [];
  const sender = createChangeSender({
    sendUpdated: async (uri) => {
      if (uri === "a") throw new Error("closed");
      sent.push(uri);
    },
    sendListChanged: async () => undefined,
    onFault: (error) => void faults.push(error),
  });
  sender.updated("a");
  sender.updated("b");
  await new Promise(setImmediate);
  expect([sent, faults]).toEqual([["b"], [expect.objectContaining({ message: "closed" })]]);
});
