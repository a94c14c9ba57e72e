/**
 * Preloaded into the built program: throws, where nobody catches it, in the context of the operation
 * that a file names. The file is renamed when its moment has come.
 */

import { subscribe } from "node:diagnostics_channel";
import { EventEmitter } from "node:events";
import { existsSync, readFileSync, renameSync } from "node:fs";
import { ServerResponse } from "node:http";
import type { StepMessage } from "../../../src/common/steps.ts";

export const THROWS = ["tick", "rejection", "timer", "emitter", "microtask"] as const;

export interface ThrowPlan {
  /** The moment: a request that is sent or received, a step, or a header that is set. */
  readonly moment: "sent" | "received" | "step" | "header";
  /** Part of the path, or the name of the step or header. */
  readonly name: string;
  readonly way: (typeof THROWS)[number];
  /** Errors that are thrown at that moment; one if left out. */
  readonly times?: number;
}

export const THROW_VARIABLE = "THROW_PLAN";
export const THROWN = ".hit";

const path = process.env[THROW_VARIABLE] ?? "";

function fire(way: ThrowPlan["way"]): void {
  const error = new Error(`thrown by ${way}`);
  const fail = () => {
    throw error;
  };
  if (way === "tick") process.nextTick(fail);
  else if (way === "timer") setTimeout(fail, 1);
  else if (way === "microtask") queueMicrotask(fail);
  else if (way === "rejection") void Promise.reject(error);
  else setImmediate(() => new EventEmitter().emit("error", error));
}

function onMoment(moment: ThrowPlan["moment"], name: string): void {
  if (!existsSync(path)) return;
  const plan: ThrowPlan = JSON.parse(readFileSync(path, "utf8"));
  if (plan.moment !== moment || !name.includes(plan.name)) return;
  renameSync(path, path + THROWN);
  for (let time = 0; time < (plan.times ?? 1); time += 1) fire(plan.way);
}

interface RequestMessage {
  readonly request: { readonly path?: string; readonly url?: string };
}

function watch(channel: string, moment: ThrowPlan["moment"]): void {
  subscribe(channel, (message) => {
    // Each of the channels carries such messages.
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion
    const { request } = message as RequestMessage;
    onMoment(moment, request.path ?? request.url ?? "");
  });
}

if (path !== "") {
  watch("http.client.request.start", "sent");
  watch("undici:request:create", "sent");
  watch("http.server.request.start", "received");
  // The channel of the program carries this type alone.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  subscribe("sandbox-mcp:step", (message) => onMoment("step", (message as StepMessage).name));
  // It is called with its own response again.
  // oxlint-disable-next-line typescript/unbound-method
  ServerResponse.prototype.setHeader = new Proxy(ServerResponse.prototype.setHeader, {
    apply(target, self, words) {
      onMoment("header", String(words[0]));
      return Reflect.apply(target, self, words);
    },
  });
}
