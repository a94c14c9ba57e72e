/** What the host told the daemon about its sandbox; nothing of it comes from anywhere else. */

import type { InitRequest } from "../wire/files.ts";

export interface Settings {
  /** Undefined: the sandbox is open to every client that reaches it. */
  readonly accessToken: string | undefined;
  /** Defaults for every process. */
  readonly envVars: ReadonlyMap<string, string>;
  readonly defaultUser: string;
  readonly defaultWorkdir: string | undefined;
}

export interface SettingsHolder {
  /** The settings as they are now; read them again after every wait. */
  readonly current: Settings;
  /** Whether the host has said anything to this daemon; one that started anew has heard nothing. */
  readonly isTold: boolean;
  /** Takes over what the host sent; false when something newer was there already. */
  apply(request: InitRequest): boolean;
}

/** The user until the host names another. */
const FIRST_USER = "root";

/** Settings of a daemon that heard nothing from its host yet. */
export function createSettings(): SettingsHolder {
  let current: Settings = {
    accessToken: undefined,
    envVars: new Map(),
    defaultUser: FIRST_USER,
    defaultWorkdir: undefined,
  };
  let isTold = false;
  let newestMs = Number.NEGATIVE_INFINITY;
  return {
    get current() {
      return current;
    },
    get isTold() {
      return isTold;
    },
    apply(request) {
      isTold = true;
      if (request.timestamp !== undefined) {
        const sentMs = Date.parse(request.timestamp);
        if (sentMs <= newestMs) return false;
        newestMs = sentMs;
      }
      current = {
        accessToken: request.accessToken,
        envVars:
          request.envVars === undefined
            ? current.envVars
            : new Map(Object.entries(request.envVars)),
        defaultUser: request.defaultUser || current.defaultUser,
        defaultWorkdir: request.defaultWorkdir || current.defaultWorkdir,
      };
      return true;
    },
  };
}
