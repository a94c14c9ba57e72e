/** Work at a step of the program that runs in the process of the test. */

import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { StepMessage, StepName } from "../../src/common/steps.ts";

/** Does something at the first time of a step, or the first times, which wait for it and fail with it. */
export function atStep(name: StepName, work: () => Promise<void>, times = 1) {
  let reached = 0;
  const listen = (message: unknown) => {
    // The channel of the program carries this type alone.
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion
    const said = message as StepMessage;
    if (said.name !== name) return;
    reached += 1;
    if (reached === times) unsubscribe("sandbox-mcp:step", listen);
    said.hold = work();
  };
  subscribe("sandbox-mcp:step", listen);
  return {
    get wasReached() {
      return reached > 0;
    },
    get reached() {
      return reached;
    },
    [Symbol.dispose]: () => void unsubscribe("sandbox-mcp:step", listen),
  };
}
