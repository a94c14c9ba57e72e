/** The certificate that `serve` shows, and what its clients have to know to accept it. */

import { SandboxError } from "../../common/errors.ts";
import type { Logger } from "../../common/log.ts";
import { quoteWord } from "../../common/shell-word.ts";
import type { Config } from "../../config.ts";
import type { TlsIdentity } from "../../listener/tls.ts";
import { openCertificateFiles, type CertificatePaths } from "./certificate-files.ts";

export interface ServeTls {
  readonly identity: TlsIdentity;
  /** Path of the authority's certificate; undefined where the user brought the certificate. */
  readonly authorityPath: string | undefined;
}

/**
 * Undefined for plain HTTP. The signal ends the renewal of certificates.
 * @throws SandboxError failed_precondition for settings that exclude each other, files that cannot be
 * read and a domain that can have no certificate.
 */
export async function openServeTls(
  config: Config,
  terms: { readonly log: Logger; readonly signal: AbortSignal },
): Promise<ServeTls | undefined> {
  const { tlsCert, tlsKey, makesCertificates, home, domain } = config;
  if (makesCertificates) {
    if (tlsCert !== undefined || tlsKey !== undefined) {
      throw new SandboxError("failed_precondition", "--tls auto makes its own certificate", {
        hint: "give either --tls auto, or --tls-cert and --tls-key",
      });
    }
    const { openServerIdentity } = await import("./local-authority.ts");
    const { authority, identity } = await openServerIdentity({ home, domain }, terms);
    return { identity, authorityPath: authority.path };
  }
  const paths = givenPaths(config);
  if (paths === undefined) return undefined;
  return { identity: await openCertificateFiles(paths, terms), authorityPath: undefined };
}

/** @throws SandboxError failed_precondition where one of the two is not given. */
function givenPaths({ tlsCert, tlsKey }: Config): CertificatePaths | undefined {
  if (tlsCert === undefined && tlsKey === undefined) return undefined;
  if (tlsCert === undefined || tlsKey === undefined) {
    throw new SandboxError("failed_precondition", "TLS needs a certificate and its key", {
      hint: "give both --tls-cert and --tls-key",
    });
  }
  return { certificate: tlsCert, key: tlsKey };
}

/**
 * The lines that a client copies into its shell: where the service is, and whom to trust. Node adds
 * the named file to what it trusts; programs on OpenSSL and Rustls (Python, curl, Go) trust it alone.
 */
export function clientLines(domain: string, authorityPath: string): string[] {
  const path = quoteWord(authorityPath);
  return [
    `export E2B_DOMAIN=${domain}`,
    `export NODE_EXTRA_CA_CERTS=${path} SSL_CERT_FILE=${path}`,
  ];
}
