/** The options of a create that asks for nothing. */

import { PLAIN_OPTIONS } from "../../../src/sandboxes/create/create-plan.ts";

export const PLAIN_CREATE = { ...PLAIN_OPTIONS, template: "base", timeoutSeconds: 600 };
