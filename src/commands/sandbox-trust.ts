/** What every sandbox gets of the certificates and the proxy of this machine. */

import type { Config } from "../config.ts";
import { prepareTrust, type Trust } from "../engine/templates/trust.ts";

/** The variables of a proxy in both spellings that programs read. */
export interface Outside {
  readonly trust: Trust | undefined;
  readonly environment: Readonly<Record<string, string>>;
}

/** @throws SandboxError as `prepareTrust`. */
export async function prepareOutside(
  config: Pick<Config, "home" | "ca" | "caFiles" | "proxy">,
): Promise<Outside> {
  const { home, ca, caFiles: files, proxy } = config;
  const hasProxy = Object.keys(proxy).length > 0;
  const trust = await prepareTrust({ home, files, file: ca, hasProxy });
  return { trust, environment: { ...trust?.environment, ...proxy } };
}
