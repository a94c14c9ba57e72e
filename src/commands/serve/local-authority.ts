/**
 * The certificate authority of the home, one for each domain: `ca-<domain>.pem` for clients and
 * `ca-<domain>.key` for the service alone. What is there is used; a certificate that nears its end is
 * replaced by one of the same key and name, so that clients go on with either.
 */

import { chmod } from "node:fs/promises";
import { join } from "node:path";
import { createSystemClock, everyInterval } from "../../common/clock.ts";
import { SandboxError } from "../../common/errors.ts";
import { readIfThere, writeDurably } from "../../common/files.ts";
import { withLock } from "../../engine/host/lock.ts";
import type { KeyedCertificate, ValidTime } from "../../listener/certificates.ts";
import type { TlsIdentity } from "../../listener/tls.ts";
import { withoutPort } from "../../wire/address.ts";
import type { RenewalTerms } from "./certificate-files.ts";

const DAY_MS = 86_400_000;
/** Time for users who were given the authority by hand to take its next certificate. */
const AUTHORITY_MARGIN_MS = 365 * DAY_MS;
const SERVER_MARGIN_MS = 30 * DAY_MS;
/** Soon after the clock was set, too, which may make a certificate one of the past or of the future. */
const CHECK_MS = 60_000;

const LABEL = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?";
/** A wildcard directly below a top-level name is none to most clients, and a number no name. */
const DOMAIN_PATTERN = new RegExp(`^(?:${LABEL}\\.)+(?![0-9]+$)${LABEL}$`);

export interface LocalAuthority extends KeyedCertificate {
  /** Absolute path of the certificate, for clients. */
  readonly path: string;
  /** Without a port. */
  readonly domain: string;
}

export interface AuthorityPlace {
  /** Absolute path; it is there. */
  readonly home: string;
  readonly domain: string;
}

/**
 * The authority of the home for a domain; made when it is missing, renewed a year before its end, and
 * when it is one of the future, because the clock was set back.
 * @throws SandboxError failed_precondition for a domain that can have no wildcard certificate, and
 * for a key that cannot be read.
 */
export async function openAuthority(
  { home, domain: named }: AuthorityPlace,
  nowMs: number,
): Promise<LocalAuthority> {
  const domain = requireDomain(named);
  const path = join(home, `ca-${domain}.pem`);
  const keyPath = join(home, `ca-${domain}.key`);
  const { newPrivateKey, makeAuthority } = await import("../../listener/certificates.ts");
  return withLock({ home, name: "authority" }, async () => {
    const key = (await readIfThere(keyPath)) ?? newPrivateKey();
    // In any case, because a key that was copied here may be open to others.
    await keepFile(keyPath, key, 0o600);
    const found = await readIfThere(path);
    const time = await usableTime(keyPath, { certificate: found ?? "", key });
    const isRight = time !== undefined && isWithin(time, nowMs, AUTHORITY_MARGIN_MS);
    if (found !== undefined && isRight) return { certificate: found, key, path, domain };
    const before = time === undefined ? undefined : found;
    const certificate = makeAuthority({ domain, key, before, nowMs });
    await keepFile(path, certificate, 0o644);
    return { certificate, key, path, domain };
  });
}

/** Writes the file unless it has this text, and sets its mode in any case. */
async function keepFile(path: string, text: string, mode: number): Promise<void> {
  if ((await readIfThere(path)) !== text) await writeDurably(path, text);
  await chmod(path, mode);
}

function isWithin({ startAtMs, endAtMs }: ValidTime, nowMs: number, marginMs: number): boolean {
  return startAtMs <= nowMs && nowMs < endAtMs - marginMs;
}

/** When a certificate is valid that is one of this key; undefined for none. */
async function usableTime(keyPath: string, pair: KeyedCertificate): Promise<ValidTime | undefined> {
  const { describeAuthority, isPrivateKey } = await import("../../listener/certificates.ts");
  if (!isPrivateKey(pair.key)) {
    throw new SandboxError("failed_precondition", `${keyPath} holds no private key`, {
      hint: "put the right one back, or remove it to start a new authority that clients must be given",
    });
  }
  return describeAuthority(pair);
}

/**
 * The domain of a certificate, without a port.
 * @throws SandboxError failed_precondition when there can be no certificate for what is below it.
 */
export function requireDomain(named: string): string {
  const domain = withoutPort(named).toLowerCase();
  if (DOMAIN_PATTERN.test(domain)) return domain;
  throw new SandboxError("failed_precondition", `no certificate can be made for ${named}`, {
    hint: "give --domain a name of at least two labels, such as sandbox.localhost",
  });
}

/**
 * What a server shows for the domain, renewed while the signal has not fired: the certificate, whose
 * key is in memory alone, and the authority behind it.
 */
export async function openServerIdentity(
  place: AuthorityPlace,
  { log, signal, clock = createSystemClock() }: RenewalTerms,
): Promise<{ readonly authority: LocalAuthority; readonly identity: TlsIdentity }> {
  const { issueServerCertificate } = await import("../../listener/certificates.ts");
  const issue = async () => {
    const nowMs = clock.now();
    const authority = await openAuthority(place, nowMs);
    return { authority, issued: issueServerCertificate(authority, authority.domain, nowMs) };
  };
  const { authority, issued } = await issue();
  const uses: ((next: KeyedCertificate) => void)[] = [];

  async function renew(): Promise<void> {
    let shown: ValidTime = issued;
    for await (const _ of everyInterval(clock, CHECK_MS, signal)) {
      if (isWithin(shown, clock.now(), SERVER_MARGIN_MS)) continue;
      try {
        const next = await issue();
        for (const use of uses) use(next.issued);
        shown = next.issued;
        log.info({ op: "tls.renew" }, "certificate renewed");
      } catch (error) {
        // A full disk may be the reason, and over by the next check.
        log.error({ op: "tls.renew", err: error }, "certificate not renewed");
      }
    }
  }

  void renew();
  return { authority, identity: { ...issued, onRenewal: (use) => void uses.push(use) } };
}
