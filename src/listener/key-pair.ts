/** Whether a certificate can be shown with a key. */

import { createPrivateKey, X509Certificate } from "node:crypto";
import { createSecureContext } from "node:tls";
import type { KeyedCertificate } from "./certificates.ts";

/** Throws for a pair with which no handshake would succeed. */
export function requirePair({ certificate, key }: KeyedCertificate): void {
  // Node takes an empty text for none.
  if (certificate === "" || key === "") throw new Error("one of the two is empty");
  createSecureContext({ cert: certificate, key });
  // OpenSSL compares them only where both are of one kind, such as RSA.
  if (!new X509Certificate(certificate).checkPrivateKey(createPrivateKey(key))) {
    throw new Error("the key is not that of the first certificate");
  }
}
