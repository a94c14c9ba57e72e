/** `key create|list|revoke`: API keys of the local service, or of the fronts of a cluster. */

import { join } from "node:path";
import { findCluster } from "../cluster/api/address.ts";
import { createClusterApi } from "../cluster/api/api.ts";
import { addKey, readKeys, removeKey } from "../cluster/keys.ts";
import { createSystemClock } from "../common/clock.ts";
import { SandboxError } from "../common/errors.ts";
import { isDiscarded } from "../common/output-faults.ts";
import { quoteName } from "../common/untrusted-text.ts";
import type { Config } from "../config.ts";
import { findKey, makeKey, requireKeyName, requireTeam, sortKeys } from "../sandboxes/keys.ts";
import { openStore } from "../store/sqlite.ts";
import type { KeyRecord } from "../store/store.ts";
import { openHome } from "./home/home.ts";
import { EXIT_OK, type CommandContext } from "./program/command.ts";

const DEFAULT_NAME = "default";
const ACTIONS = ["create", "list", "revoke"] as const;

interface Keys extends Disposable {
  all(): Promise<readonly KeyRecord[]>;
  add(record: KeyRecord): Promise<void>;
  remove(record: KeyRecord): Promise<void>;
}

export async function runKey({ config, words }: CommandContext): Promise<number> {
  const [action, name] = words;
  const { team } = config;
  // No home is made for a command that was typed wrong.
  if (team !== undefined) requireTeam(team);
  requireAction(action, name);
  if (action === "create") {
    requireKeyName(name ?? DEFAULT_NAME);
    requireReader();
  }
  using keys = config.engine === "kubernetes" ? await openCluster(config) : await openLocal(config);
  switch (action) {
    case "create": {
      const holder = { name: name ?? DEFAULT_NAME, team };
      const { key, record } = makeKey(createSystemClock(), holder);
      await keys.add(record);
      await show(key).catch(async (error: unknown) => {
        await keys.remove(record);
        throw new SandboxError("unavailable", "the key could not be shown and was removed", {
          cause: error,
        });
      });
      process.stderr.write("sandbox-mcp: this key is shown once, keep it\n");
      return EXIT_OK;
    }
    case "list": {
      const shown = (await keys.all()).filter((key) => team === undefined || key.team === team);
      for (const record of sortKeys(shown)) process.stdout.write(`${describe(record)}\n`);
      return EXIT_OK;
    }
    case "revoke": {
      const record = findKey(sortKeys(await keys.all()), name ?? "", team);
      await keys.remove(record);
      process.stdout.write(`revoked ${record.mask}\n`);
      return EXIT_OK;
    }
    default:
      return action satisfies never;
  }
}

type Action = (typeof ACTIONS)[number];

/** @throws SandboxError invalid_argument for another one, and without the key that it needs */
function requireAction(
  action: string | undefined,
  name: string | undefined,
): asserts action is Action {
  if (action === undefined) throw usage("key: no action");
  if (!ACTIONS.some((known) => known === action)) {
    throw usage(`key ${quoteName(action)}: no such action`);
  }
  if (action === "revoke" && name === undefined) {
    throw usage("key revoke needs the name or id of a key");
  }
}

/** @throws SandboxError unavailable where the key would be lost */
function requireReader(): void {
  if (!isDiscarded(process.stdout.fd)) return;
  throw new SandboxError("unavailable", "no key was made: standard output is closed or discarded", {
    hint: "let it go to a terminal, a file or a program: a key is shown once",
  });
}

/** Resolves when it is written: a key that was never seen must not count. */
async function show(key: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  process.stdout.write(`${key}\n`, (error) => (error ? reject(error) : resolve()));
  await promise;
}

/** A line of the list. Names of earlier versions may have any characters but line breaks. */
function describe({ keyId, mask, createdAtMs, team, name }: KeyRecord): string {
  const createdAt = new Date(createdAtMs).toISOString();
  return [keyId, mask, createdAt, quoteName(team), quoteName(name)].join("  ");
}

async function openLocal(config: Config): Promise<Keys> {
  await openHome(config.home);
  const store = openStore({ path: join(config.home, "state.db") });
  return {
    all: async () => store.keys.all(),
    add: async (record) => store.keys.add(record),
    remove: async ({ keyId }) => void store.keys.remove(keyId),
    [Symbol.dispose]: () => store[Symbol.dispose](),
  };
}

async function openCluster(config: Config): Promise<Keys> {
  const api = createClusterApi(await findCluster(config.cluster));
  return {
    all: () => readKeys(api),
    add: (record) => addKey(api, record),
    remove: (record) => removeKey(api, record),
    [Symbol.dispose]: () => api[Symbol.dispose](),
  };
}

function usage(message: string): SandboxError {
  return new SandboxError("invalid_argument", message, {
    hint: "key create NAME [--team TEAM], key list [--team TEAM], key revoke NAME [--team TEAM]",
  });
}
