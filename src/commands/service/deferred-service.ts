/**
 * The service of a stdio server, remote or on this machine. It is opened after the server has
 * answered its host.
 */

import type { Service } from "../../client/service.ts";
import { anySignal } from "../../common/any-signal.ts";
import { hidePaths, SandboxError, toSandboxError } from "../../common/errors.ts";
import type { Logger } from "../../common/log.ts";
import type { Config } from "../../config.ts";
import type { OnExit } from "../../mcp/state.ts";
import type { NoService, OpenService, OpenTerms } from "./local-service.ts";

export interface DeferredService extends AsyncDisposable {
  /**
   * Opens the service; later calls wait for the first one.
   * @throws SandboxError for what the program has to end by.
   */
  begin(): Promise<void>;
  /**
   * Resolves once there is one.
   * @throws SandboxError as `begin`, failed_precondition with the next steps where there is none.
   */
  ready(): Promise<void>;
  /** @throws SandboxError unavailable before it is ready. */
  current(): Service;
  /** What happens to the sandboxes of the MCP server at its end. */
  onExit(): OnExit;
  /** Whether it was found that there is none. */
  isAbsent(): boolean;
  /** Fires with what `begin` failed by. */
  readonly failed: AbortSignal;
}

/** Nothing is loaded or started before it is asked for. The signal ends a wait for another process. */
export function createDeferredService(
  config: Config,
  log: Logger,
  stop: AbortSignal,
): DeferredService {
  const stack = new AsyncDisposableStack();
  const end = new AbortController();
  const terms = { log, signal: anySignal([stop, end.signal]) };
  const failure = new AbortController();
  let found: OpenService | NoService | undefined;
  let opening: Promise<void> | undefined;

  async function open(): Promise<void> {
    try {
      found = await openService(config, terms, stack);
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
      await begin().catch((error: unknown) => {
        const { code, message, hint } = toSandboxError(error, "service");
        throw new SandboxError(code, hidePaths(message), {
          cause: error,
          ...(hint !== undefined && { hint }),
        });
      });
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
      end.abort();
      // What was begun is ended as a whole; who waited for it was told already if it failed.
      await opening?.catch(() => undefined);
      await stack.disposeAsync();
    },
  };
}

/** What a service elsewhere is called unless the configuration says otherwise. */
const DEFAULT_REMOTE_DOMAIN = "e2b.app";

/**
 * The service for this configuration, owned by the stack. What the other kind of service needs is
 * not loaded.
 * @throws SandboxError failed_precondition for a configuration that cannot hold, unavailable for a
 * runtime that was asked for and does not work.
 */
async function openService(
  config: Config,
  terms: OpenTerms,
  stack: AsyncDisposableStack,
): Promise<OpenService | NoService> {
  if (config.engine === "remote") {
    const service = stack.use(await createRemoteService(config));
    return { service, onExit: config.onExit ?? "leave" };
  }
  if (config.engine === "kubernetes") {
    throw new SandboxError("failed_precondition", "stdio runs no Pods by itself", {
      hint: "set E2B_API_KEY, E2B_API_URL and E2B_SANDBOX_URL to a front that runs with --engine kubernetes",
    });
  }
  const { openLocalService } = await import("./local-service.ts");
  return openLocalService(config, terms, stack);
}

async function createRemoteService(config: Config): Promise<Service> {
  if (config.remote === undefined) {
    throw new SandboxError("failed_precondition", "the remote engine needs a key", {
      hint: "set E2B_API_KEY, or use --engine local",
    });
  }
  const { createService } = await import("../../client/service.ts");
  const { apiUrl, domain = DEFAULT_REMOTE_DOMAIN, ...remote } = config.remote;
  return createService({ ...remote, url: apiUrl ?? `https://api.${domain}`, domain });
}
