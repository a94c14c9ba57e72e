/** `key create|list|revoke`: API keys of the local service. */

import { join } from "node:path";
import { createSystemClock } from "../common/clock.ts";
import { SandboxError } from "../common/errors.ts";
import { createKey, listKeys, revokeKeys } from "../sandboxes/keys.ts";
import { openStore } from "../store/sqlite.ts";
import type { CommandContext } from "./command.ts";
import { openHome } from "./home.ts";

const EXIT_OK = 0;

export async function runKey({ config, words }: CommandContext): Promise<number> {
  const [action, name] = words;
  await openHome(config.home);
  using store = openStore({ path: join(config.home, "state.db") });
  switch (action) {
    case "create": {
      const holder = { name: name ?? "default", team: config.team };
      const { key } = createKey(store, createSystemClock(), holder);
      process.stdout.write(`${key}\n`);
      process.stderr.write("sandbox-mcp: this key is shown once, keep it\n");
      return EXIT_OK;
    }
    case "list": {
      for (const record of listKeys(store)) {
        const createdAt = new Date(record.createdAtMs).toISOString();
        const { keyId, mask, team } = record;
        process.stdout.write(`${keyId}  ${mask}  ${createdAt}  ${team}  ${record.name}\n`);
      }
      return EXIT_OK;
    }
    case "revoke": {
      if (name === undefined) throw usage("key revoke needs the name or id of a key");
      const revoked = revokeKeys(store, name);
      if (revoked.length === 0) throw usage(`no key ${JSON.stringify(name)}`);
      for (const record of revoked) process.stdout.write(`revoked ${record.mask}\n`);
      return EXIT_OK;
    }
    case undefined:
    default:
      throw usage(`key ${action ?? ""}: no such action`);
  }
}

function usage(message: string): SandboxError {
  return new SandboxError("invalid_argument", message, {
    hint: "key create NAME [--team TEAM], key list, key revoke NAME",
  });
}
