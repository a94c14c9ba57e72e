/**
 * Certificates of a local authority: the authority's own, which is limited to one domain, and those
 * of servers. Keys are P-256; nothing here touches a file.
 */

import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  randomBytes,
  sign,
  X509Certificate,
  type KeyObject,
} from "node:crypto";
import { AsnConvert, OctetString } from "@peculiar/asn1-schema";
import {
  AlgorithmIdentifier,
  AttributeTypeAndValue,
  AttributeValue,
  AuthorityKeyIdentifier,
  BasicConstraints,
  Certificate,
  ExtendedKeyUsage,
  Extension,
  Extensions,
  GeneralName,
  GeneralSubtree,
  GeneralSubtrees,
  KeyIdentifier,
  KeyUsage,
  KeyUsageFlags,
  Name,
  NameConstraints,
  RelativeDistinguishedName,
  SubjectAlternativeName,
  SubjectKeyIdentifier,
  SubjectPublicKeyInfo,
  TBSCertificate,
  Validity,
  Version,
  id_ce_authorityKeyIdentifier,
  id_ce_basicConstraints,
  id_ce_extKeyUsage,
  id_ce_keyUsage,
  id_ce_nameConstraints,
  id_ce_subjectAltName,
  id_ce_subjectKeyIdentifier,
  id_kp_serverAuth,
} from "@peculiar/asn1-x509";

const DAY_MS = 86_400_000;
/** Clients of a long-lived service are given the authority by hand. */
const AUTHORITY_DAYS = 5 * 365;
/** Below the bound of 398 days that clients set for certificates of servers. */
const SERVER_DAYS = 90;
/** The clock of a client may be behind. */
const SKEW_MS = DAY_MS;

const COMMON_NAME = "2.5.4.3";
const ECDSA_WITH_SHA256 = "1.2.840.10045.4.3.2";
const SERIAL_BYTES = 16;
const NAME_BYTES = 4;

/** The addresses of this machine alone, for clients that know the service by one. */
const LOOPBACK = ["127.0.0.1", "::1"] as const;
const LOOPBACK_NETWORKS = ["127.0.0.0/8", "::1/128"] as const;

/** PEM texts of a certificate and its private key. */
export interface KeyedCertificate {
  readonly certificate: string;
  readonly key: string;
}

/** Clients refuse a certificate before and after it. */
export interface ValidTime {
  readonly startAtMs: number;
  readonly endAtMs: number;
}

export function newPrivateKey(): string {
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  return privateKey.export({ type: "pkcs8", format: "pem" }).toString();
}

/**
 * An authority that can vouch for the domain, what is below it and loopback addresses, for servers
 * only. With the certificate before, the new one has its name, so that clients that trust either
 * accept what the key signed.
 */
export function makeAuthority(options: {
  readonly domain: string;
  /** PEM. */
  readonly key: string;
  readonly before: string | undefined;
  readonly nowMs: number;
}): string {
  const { domain, nowMs, before } = options;
  const key = createPrivateKey(options.key);
  const name = before === undefined ? newAuthorityName() : readCertificate(before).subject;
  const permitted = [
    new GeneralName({ dNSName: domain }),
    ...LOOPBACK_NETWORKS.map((iPAddress) => new GeneralName({ iPAddress })),
  ].map((base) => new GeneralSubtree({ base }));
  return signCertificate({
    key,
    issuer: name,
    subject: name,
    publicKey: createPublicKey(key),
    nowMs,
    endAtMs: nowMs + AUTHORITY_DAYS * DAY_MS,
    extensions: [
      toExtension(id_ce_basicConstraints, new BasicConstraints({ cA: true, pathLenConstraint: 0 })),
      toExtension(id_ce_keyUsage, new KeyUsage(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign)),
      toExtension(
        id_ce_nameConstraints,
        new NameConstraints({ permittedSubtrees: new GeneralSubtrees(permitted) }),
      ),
      toExtension(id_ce_extKeyUsage, new ExtendedKeyUsage([id_kp_serverAuth]), false),
    ],
  });
}

/** A certificate for the domain, every name directly below it and loopback, with a new key. */
export function issueServerCertificate(
  authority: KeyedCertificate,
  domain: string,
  nowMs: number,
): KeyedCertificate & ValidTime {
  const key = newPrivateKey();
  const { subject: issuer, endAtMs: authorityEndMs } = readCertificate(authority.certificate);
  const endAtMs = Math.min(nowMs + SERVER_DAYS * DAY_MS, authorityEndMs);
  const names = [domain, `*.${domain}`].map((dNSName) => new GeneralName({ dNSName }));
  const addresses = LOOPBACK.map((iPAddress) => new GeneralName({ iPAddress }));
  const issuerKey = createPrivateKey(authority.key);
  const keyId = toKeyId(createPublicKey(issuerKey));
  const certificate = signCertificate({
    key: issuerKey,
    issuer,
    subject: toName("sandbox-mcp"),
    publicKey: createPublicKey(key),
    nowMs,
    endAtMs,
    extensions: [
      toExtension(id_ce_basicConstraints, new BasicConstraints({ cA: false })),
      toExtension(id_ce_keyUsage, new KeyUsage(KeyUsageFlags.digitalSignature)),
      toExtension(id_ce_extKeyUsage, new ExtendedKeyUsage([id_kp_serverAuth]), false),
      toExtension(
        id_ce_subjectAltName,
        new SubjectAlternativeName([...names, ...addresses]),
        false,
      ),
      toExtension(
        id_ce_authorityKeyIdentifier,
        new AuthorityKeyIdentifier({ keyIdentifier: new KeyIdentifier(keyId) }),
        false,
      ),
    ],
  });
  return { certificate, key, startAtMs: nowMs - SKEW_MS, endAtMs };
}

/** When a certificate is valid; undefined unless it is one of an authority that has this key. */
export function describeAuthority({ certificate, key }: KeyedCertificate): ValidTime | undefined {
  try {
    const read = new X509Certificate(certificate);
    const isOfKey = read.ca && read.checkPrivateKey(createPrivateKey(key));
    if (!isOfKey) return undefined;
    return { startAtMs: Date.parse(read.validFrom), endAtMs: Date.parse(read.validTo) };
  } catch {
    return undefined;
  }
}

export function isPrivateKey(pem: string): boolean {
  try {
    return createPrivateKey(pem).asymmetricKeyType === "ec";
  } catch {
    return false;
  }
}

interface CertificateParts {
  /** Of the issuer. */
  readonly key: KeyObject;
  readonly issuer: Name;
  readonly subject: Name;
  readonly publicKey: KeyObject;
  readonly nowMs: number;
  readonly endAtMs: number;
  readonly extensions: readonly Extension[];
}

function signCertificate(parts: CertificateParts): string {
  const algorithm = new AlgorithmIdentifier({ algorithm: ECDSA_WITH_SHA256 });
  const subjectKeyId = new SubjectKeyIdentifier(toKeyId(parts.publicKey));
  const tbsCertificate = new TBSCertificate({
    version: Version.v3,
    serialNumber: newSerialNumber(),
    signature: algorithm,
    issuer: parts.issuer,
    validity: new Validity({
      notBefore: new Date(parts.nowMs - SKEW_MS),
      notAfter: new Date(parts.endAtMs),
    }),
    subject: parts.subject,
    subjectPublicKeyInfo: AsnConvert.parse(toSpki(parts.publicKey), SubjectPublicKeyInfo),
    extensions: new Extensions([
      ...parts.extensions,
      toExtension(id_ce_subjectKeyIdentifier, subjectKeyId, false),
    ]),
  });
  const signed = sign("sha256", Buffer.from(AsnConvert.serialize(tbsCertificate)), parts.key);
  const certificate = new Certificate({
    tbsCertificate,
    signatureAlgorithm: algorithm,
    signatureValue: toArrayBuffer(signed),
  });
  return new X509Certificate(Buffer.from(AsnConvert.serialize(certificate))).toString();
}

function readCertificate(pem: string): { readonly subject: Name; readonly endAtMs: number } {
  const read = new X509Certificate(pem);
  const { tbsCertificate } = AsnConvert.parse(read.raw, Certificate);
  return { subject: tbsCertificate.subject, endAtMs: Date.parse(read.validTo) };
}

/** Each authority has a name of its own: clients find the signer of a certificate by it. */
function newAuthorityName(): Name {
  return toName(`sandbox-mcp local authority ${randomBytes(NAME_BYTES).toString("hex")}`);
}

function toName(utf8String: string): Name {
  const value = new AttributeValue({ utf8String });
  const attribute = new AttributeTypeAndValue({ type: COMMON_NAME, value });
  return new Name([new RelativeDistinguishedName([attribute])]);
}

function toExtension(extnID: string, value: object, critical = true): Extension {
  const extnValue = new OctetString(AsnConvert.serialize(value));
  return new Extension({ extnID, critical, extnValue });
}

/** Positive, and not zero. */
function newSerialNumber(): ArrayBuffer {
  const bytes = randomBytes(SERIAL_BYTES);
  bytes[0] = ((bytes[0] ?? 0) & 0x7f) | 0x40;
  return toArrayBuffer(bytes);
}

function toSpki(key: KeyObject): Buffer {
  return key.export({ type: "spki", format: "der" });
}

/** RFC 7093, 2, method 1: any identifier will do that is the same wherever the key is named. */
function toKeyId(key: KeyObject): ArrayBuffer {
  return toArrayBuffer(createHash("sha256").update(toSpki(key)).digest().subarray(0, 20));
}

function toArrayBuffer(bytes: Buffer): ArrayBuffer {
  const copy = new ArrayBuffer(bytes.length);
  new Uint8Array(copy).set(bytes);
  return copy;
}
