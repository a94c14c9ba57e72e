/**
 * The engines that a service can run on. Another engine is a directory beside `oci/` and a row here.
 */

import type { Engine } from "./engine.ts";
import type { OciEngineOptions } from "./oci/oci.ts";

/** What the configuration says to an engine. */
export type EngineOptions = OciEngineOptions;

export interface EngineRow {
  /** The operating system that it needs. */
  readonly platform: NodeJS.Platform;
  /** Starts nothing and looks at nothing. */
  create(options: EngineOptions): Promise<Engine>;
  /** Whether this machine has passed the probe with these options before; nothing is tried. */
  isProven(options: EngineOptions): Promise<boolean>;
  /**
   * Replaces this process by the same program with the privileges that the engine needs. Returns
   * where it has them, and with the reason where it cannot get them.
   */
  gainPrivileges(home: string, perlDirectory: string): Promise<string | undefined>;
}

/** By the value of `--engine`. Nothing of an engine is loaded before it is used. */
export const ENGINES = {
  local: {
    platform: "linux",
    async create(options) {
      const { createOciEngine } = await import("./oci/oci.ts");
      return createOciEngine(options);
    },
    async isProven(options) {
      const { recallProbe } = await import("./oci/probe-cache.ts");
      return recallProbe(options) !== undefined;
    },
    async gainPrivileges(home, perlDirectory) {
      const { enterOwnNamespace } = await import("./host/user-namespace.ts");
      return enterOwnNamespace(home, perlDirectory);
    },
  },
} as const satisfies Readonly<Record<string, EngineRow>>;
