/** Preloaded into the built program: what it asks to be brought to disk by open files and folders is not. */

import { open } from "node:fs/promises";

const file = await open(process.execPath, "r");
Object.assign(Object.getPrototypeOf(file), { sync: async () => undefined });
await file.close();
