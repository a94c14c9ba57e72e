/** Preloaded into a daemon by `daemon-phases.ts`: writes when its start passed which point. */

"use strict";
const { writeFileSync } = require("node:fs");
const { Server } = require("node:net");
const vm = require("node:vm");

const { timeOrigin, nodeTiming } = performance;
const moments = {
  node: timeOrigin + nodeTiming.nodeStart,
  v8: timeOrigin + nodeTiming.v8Start,
  bootstrapped: timeOrigin + performance.now(),
};

/** The starter makes one script, of the daemon's program with its compiled code. */
class RecordedScript extends vm.Script {
  constructor(...args) {
    super(...args);
    moments.compiledRead = timeOrigin + performance.now();
  }
}
vm.Script = RecordedScript;

const { listen } = Server.prototype;
Server.prototype.listen = function record(...args) {
  Server.prototype.listen = listen;
  this.once("listening", () => {
    moments.listening = timeOrigin + performance.now();
    writeFileSync(process.env.MOMENTS, JSON.stringify(moments));
  });
  return listen.apply(this, args);
};
