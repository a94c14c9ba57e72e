/** Builds the template `base` of the home that is its argument, as a service of that home does. */

import { BASE_BUILD } from "../../../src/commands/templates/built-ins.ts";

const [, , home = ""] = process.argv;
const { signal } = new AbortController();
await BASE_BUILD.build({ home, signal, ifMissing: true, onProgress: () => undefined });
