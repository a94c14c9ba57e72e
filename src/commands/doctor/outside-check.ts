/** What `doctor` finds out from inside a real sandbox: names, HTTPS and a package index. */

import { createService, type Service } from "../../client/service.ts";
import { anySignal } from "../../common/any-signal.ts";
import { errorText, hasErrorCode, SandboxError } from "../../common/errors.ts";
import { toHomeFault } from "../../common/home-fault.ts";
import { signalAfter } from "../../common/late-signal.ts";
import type { Logger } from "../../common/log.ts";
import { quoteUntrusted } from "../../common/untrusted-text.ts";
import type { Config } from "../../config.ts";
import type { EngineCheck } from "../../engine/engine.ts";
import { canShareUsr } from "../../engine/host/id-maps.ts";
import { startLocal } from "../service/local-service.ts";
import { findBase } from "../templates/base-layers.ts";

const LIMIT_MS = 60_000;
const LIFETIME_SECONDS = 90;
const MAX_OUTPUT_BYTES = 4_096;

/**
 * The index is the one that the sandbox's own package client uses. Exit codes are those of curl;
 * 99 for a sandbox without a client that has an index.
 */
const SCRIPT = `
url=$(python3 -c 'import os
from pip._internal.models.index import PyPI
print(os.environ.get("PIP_INDEX_URL") or PyPI.simple_url)' 2> /dev/null) ||
  url=$(npm config get registry 2> /dev/null) || exit 99
echo "$url"
exec curl --silent --show-error --fail --location --max-time 25 --output /dev/null "\${url%/}/pip/"
`;

const INTERNET = "sandbox: internet";
const NAMES = "sandbox: names";
const HTTPS = "sandbox: HTTPS";
const INDEX = "sandbox: package index";

/**
 * One check for each; where a sandbox cannot be had, one that tells why.
 * @throws the reason of the signal; the sandbox and its service have ended by then.
 */
export async function checkOutside(
  config: Config,
  log: Logger,
  signal: AbortSignal,
): Promise<EngineCheck[]> {
  // Then there is nothing to find out; who asks why a sandbox has no internet finds it here.
  if (config.egress === undefined)
    return [{ name: INTERNET, outcome: "ok", detail: "none, by --egress off" }];
  try {
    const answer = await askFromInside(config, log, signal);
    return answer === undefined ? [] : toChecks(answer);
  } catch (thrown) {
    signal.throwIfAborted();
    const error = toHomeFault(thrown, config.home);
    const detail = errorText(error).slice(0, MAX_OUTPUT_BYTES);
    const hint = error instanceof SandboxError ? error.hint : undefined;
    const remedy = hint ?? "see the checks above";
    // No service starts with such a configuration.
    const isRefused = hasErrorCode(error, "failed_precondition");
    // Without any, the check of the template says what to do.
    const hasTemplate = canShareUsr() || (await findBase(config.home)) !== undefined;
    if (!isRefused && !hasTemplate) return [];
    return [{ name: "sandbox", outcome: isRefused ? "missing" : "warning", detail, remedy }];
  }
}

export interface Answer {
  readonly code: number;
  /** The address of the index, then what was said. */
  readonly text: string;
}

/** Undefined for a sandbox without internet access, whose reason the engine's report has. */
async function askFromInside(
  config: Config,
  log: Logger,
  stop: AbortSignal,
): Promise<Answer | undefined> {
  await using stack = new AsyncDisposableStack();
  const local = stack.use(
    await startLocal({ ...config, buildsBase: false }, log, {
      instance: undefined,
      tcp: [],
      apiKeys: [],
      onExit: "kill",
      poolSize: 0,
      allowHostTemplate: true,
    }),
  );
  const { url, socketPath, apiKey, findRun } = local;
  const service = stack.use(createService({ url, socketPath, apiKey, findRun }));
  return await withinLimit(async (signal) => askService(service, signal), stop, LIMIT_MS);
}

/** @throws SandboxError deadline_exceeded after the limit; the reason of the other signal as it is. */
export async function withinLimit<Result>(
  work: (signal: AbortSignal) => Promise<Result>,
  stop: AbortSignal,
  limitMs: number,
): Promise<Result> {
  const limit = signalAfter(limitMs);
  try {
    return await work(anySignal([stop, limit]));
  } catch (cause) {
    if (stop.aborted || !limit.aborted) throw cause;
    const text = `no answer from a sandbox within ${limitMs / 1_000} s`;
    // The checks above passed, so none of them has the remedy.
    const hint = "look at the load of this machine with uptime, and run doctor again";
    throw new SandboxError("deadline_exceeded", text, { cause, hint });
  }
}

async function askService(service: Service, signal: AbortSignal): Promise<Answer | undefined> {
  const options = { templateID: "base", timeout: LIFETIME_SECONDS, secure: true };
  const { sandboxID, allowInternetAccess } = await service.control.create(options, signal);
  if (allowInternetAccess === false) return undefined;
  const sandbox = await service.attach(sandboxID, signal);
  const request = { cmd: "/bin/bash", args: ["-c", SCRIPT], env: {}, hasStdin: false };
  let text = "";
  for await (const event of sandbox.process.start(request, { signal })) {
    if (event.type === "data" && text.length < MAX_OUTPUT_BYTES) {
      text += Buffer.from(event.bytes).toString("utf8");
    }
    if (event.type === "end")
      return { code: event.exitCode, text: text.slice(0, MAX_OUTPUT_BYTES) };
  }
  return { code: -1, text };
}

/** Names come before HTTPS, and HTTPS before the index: what was not reached is not told. */
const REACHED: Readonly<Record<number, number>> = { 6: 0, 7: 1, 28: 1, 35: 1, 60: 1, 22: 2 };

const REMEDIES = [
  "check the name servers of this machine, or name others with --dns; its firewall must let the links sbm* through",
  "name the authority of this machine's network with --ca FILE, or its proxy with --proxy URL",
  "check that the package index answers on this machine itself",
] as const;

/** What curl's exit code means for each of the three. */
export function toChecks({ code, text }: Answer): EngineCheck[] {
  const names = [NAMES, HTTPS, INDEX] as const;
  const [address = "", ...said] = text.trim().split("\n");
  const failed = code === 0 ? names.length : REACHED[code];
  if (failed === undefined) {
    const detail = code === 99 ? "no package client in it" : `exit ${code} ${quoteUntrusted(text)}`;
    return [{ name: INDEX, outcome: "warning", detail, remedy: REMEDIES[2] }];
  }
  return names.slice(0, failed + 1).map((name, index) => {
    if (index < failed) return { name, outcome: "ok", detail: quoteUntrusted(address) };
    const detail = quoteUntrusted(said.join(" "));
    return { name, outcome: "warning", detail, remedy: REMEDIES[index] ?? REMEDIES[2] };
  });
}
