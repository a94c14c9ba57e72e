/** The service of a stdio server, opened late: the host hears from the server before it stands. */

import type { Service } from "../client/service.ts";
import { SandboxError } from "../common/errors.ts";
import { hidePaths } from "../common/host-paths.ts";
import type { Logger } from "../common/log.ts";
import type { Config } from "../config.ts";
import type { NoService, OpenService } from "./open-service.ts";

export interface DeferredService extends AsyncDisposable {
  /**
   * Opens it, once, whoever asks and how often.
   * @throws SandboxError for what the program has to end by.
   */
  begin(): Promise<void>;
  /**
   * Resolves once there is one.
   * @throws SandboxError as `begin`, failed_precondition with the ways on where there is none.
   */
  ready(): Promise<void>;
  /** @throws SandboxError unavailable before it is ready. */
  current(): Service;
  /** What the MCP server itself does with the sandboxes that it made. */
  onExit(): "kill" | "leave";
  /** Whether it was found that there is none. */
  isAbsent(): boolean;
  /** Fires with what `begin` failed by. */
  readonly failed: AbortSignal;
}

/** Nothing is loaded or started before it is asked for. */
export function createDeferredService(config: Config, log: Logger): DeferredService {
  const stack = new AsyncDisposableStack();
  const failure = new AbortController();
  let found: OpenService | NoService | undefined;
  let opening: Promise<void> | undefined;

  async function open(): Promise<void> {
    try {
      const { openService } = await import("./open-service.ts");
      found = await openService(config, log, stack);
    } catch (error) {
      failure.abort(error);
      throw error;
    }
    if ("reason" in found) {
      const line = `sandbox-mcp: ${found.reason}: ${found.hint}`.replaceAll("\n", " ");
      process.stderr.write(`${line}\n`);
    }
  }

  const begin = async (): Promise<void> => (opening ??= open());
  return {
    begin,
    async ready() {
      await begin();
      if (found !== undefined && "reason" in found) {
        throw new SandboxError("failed_precondition", hidePaths(found.reason), {
          hint: found.hint,
        });
      }
    },
    current() {
      if (found !== undefined && "service" in found) return found.service;
      throw new SandboxError("unavailable", "the service is not open");
    },
    onExit: () => (found !== undefined && "service" in found ? found.onExit : "leave"),
    isAbsent: () => found !== undefined && "reason" in found,
    failed: failure.signal,
    async [Symbol.asyncDispose]() {
      // What was begun is ended as a whole; who waited for it was told already if it failed.
      await opening?.catch(() => undefined);
      await stack.disposeAsync();
    },
  };
}
