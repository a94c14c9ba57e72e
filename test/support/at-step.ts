/** Work at a step of the program that runs in the process of the test. */

import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { StepMessage, StepName } from "../../src/common/steps.ts";

/** Does something at the first time of a step, which waits for it and fails with it. */
export function atStep(name: StepName, work: () => Promise<void>) {
  let wasReached = false;
  const listen = (message: unknown) => {
    // The channel of the program carries this type alone.
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion
    const said = message as StepMessage;
    if (said.name !== name) return;
    unsubscribe("sandbox-mcp:step", listen);
    wasReached = true;
    said.hold = work();
  };
  subscribe("sandbox-mcp:step", listen);
  return {
    get wasReached() {
      return wasReached;
    },
    [Symbol.dispose]: () => void unsubscribe("sandbox-mcp:step", listen),
  };
}
