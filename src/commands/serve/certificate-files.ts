/** The certificate and key that a user brought in files, which another program renews. */

import { readFile } from "node:fs/promises";
import { createSystemClock, everyInterval, type Clock } from "../../common/clock.ts";
import { errorText, SandboxError } from "../../common/errors.ts";
import type { Logger } from "../../common/log.ts";
import type { KeyedCertificate } from "../../listener/certificates.ts";
import { requirePair } from "../../listener/key-pair.ts";
import type { TlsIdentity } from "../../listener/tls.ts";

export interface CertificatePaths {
  readonly certificate: string;
  readonly key: string;
}

export interface RenewalTerms {
  readonly log: Logger;
  readonly signal: AbortSignal;
  readonly clock?: Clock;
}

const CHECK_MS = 60_000;

/**
 * What the files hold, and what they hold later while the signal has not fired: two checks must find
 * the same, because a program that renews them writes one after the other.
 * @throws SandboxError failed_precondition for a file that cannot be read.
 */
export async function openCertificateFiles(
  paths: CertificatePaths,
  { log, signal, clock = createSystemClock() }: RenewalTerms,
): Promise<TlsIdentity> {
  const first = await readPair(paths);
  const uses: ((next: KeyedCertificate) => void)[] = [];

  function show(next: KeyedCertificate): void {
    requirePair(next);
    for (const use of uses) use(next);
  }

  async function renew(): Promise<void> {
    let shown: KeyedCertificate = first;
    let seen: KeyedCertificate = first;
    let told = "";
    for await (const _ of everyInterval(clock, CHECK_MS, signal)) {
      try {
        const found = await readPair(paths);
        const isSettled = isSame(found, seen);
        seen = found;
        if (!isSettled) continue;
        const isShown = isSame(found, shown);
        if (!isShown) show(found);
        shown = found;
        // Also without a renewal: the files are as they were before the fault.
        told = "";
        if (!isShown) log.info({ op: "tls.renew" }, "certificate renewed");
      } catch (error) {
        // The one that is shown goes on; a fault that stays is logged once.
        const fault = errorText(error);
        if (fault !== told) log.error({ op: "tls.renew", err: error }, "certificate not renewed");
        told = fault;
      }
    }
  }

  void renew();
  return { ...first, onRenewal: (use) => void uses.push(use) };
}

async function readPair(paths: CertificatePaths): Promise<KeyedCertificate> {
  const certificate = await readGiven("--tls-cert", paths.certificate);
  return { certificate, key: await readGiven("--tls-key", paths.key) };
}

async function readGiven(flag: string, path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    throw new SandboxError("failed_precondition", `${flag} ${path}: ${errorText(error)}`, {
      cause: error,
      hint: "name a file in PEM that this user can read",
    });
  }
}

function isSame(left: KeyedCertificate, right: KeyedCertificate): boolean {
  return left.certificate === right.certificate && left.key === right.key;
}
