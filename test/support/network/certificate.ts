/** A certificate authority of the test's own, and a certificate of it for a few names. */

import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import type { TlsIdentity } from "../../../src/listener/tls.ts";
import { makeTempFolder } from "../temp-folder.ts";

export interface TestCertificate extends AsyncDisposable {
  /** Files in PEM. */
  readonly authorityPath: string;
  readonly certificatePath: string;
  readonly keyPath: string;
  readonly authority: string;
  readonly identity: TlsIdentity;
}

/** Makes it with openssl, valid for a day. */
export async function makeCertificate(names: readonly string[]): Promise<TestCertificate> {
  const folder = await makeTempFolder();
  const file = (name: string) => join(folder.path, name);
  const run = async (...args: string[]) =>
    promisify(execFile)("openssl", args, { cwd: folder.path });
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout"];
  const authorityOptions = ["-x509", "-days", "1", "-subj", "/CN=test authority"];
  await run("req", ...authorityOptions, ...key, "ca.key", "-out", "ca.pem");
  await run("req", "-subj", "/CN=test", ...key, "key.pem", "-out", "csr.pem");
  const subjects = names.map((name) => `DNS:${name}`).join(",");
  await writeFile(file("extensions"), `subjectAltName=${subjects},IP:127.0.0.1\n`);
  const issuer = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "1"];
  const output = ["-extfile", "extensions", "-out", "cert.pem"];
  await run("x509", "-req", "-in", "csr.pem", ...issuer, ...output);
  const [authority, certificate, privateKey] = await Promise.all(
    ["ca.pem", "cert.pem", "key.pem"].map((name) => readFile(file(name), "utf8")),
  );
  return {
    authorityPath: file("ca.pem"),
    certificatePath: file("cert.pem"),
    keyPath: file("key.pem"),
    authority: authority ?? "",
    identity: { certificate: certificate ?? "", key: privateKey ?? "" },
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  };
}
