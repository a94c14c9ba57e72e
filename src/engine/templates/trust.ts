/**
 * The certificates of this machine as a layer above those of a template: the public authorities and
 * the machine's own in one bundle, and its own once more by themselves, where a package that writes
 * the bundle anew finds them. With them, or with a proxy alone, a rule by which sudo keeps the
 * variables of both.
 */

import { X509Certificate } from "node:crypto";
import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { rootCertificates } from "node:tls";
import { errorText, hasErrorCode, isCode, SandboxError } from "../../common/errors.ts";
import { isThere } from "../../common/files.ts";
import { sha256Hex } from "../../common/hash.ts";
import { isRootless, NAMESPACE_ID_BASE } from "../../common/privilege.ts";
import { isOpenTree } from "../../common/tree-modes.ts";
import type { Layer } from "../engine.ts";
import { discardFolder } from "../host/drafts.ts";
import { runProgram } from "../host/run-program.ts";
import { makeLayer, TREES } from "../storage/layers.ts";
import { shiftIds } from "./base.ts";
import { LOCAL_MODE, makeFolder, writeSetting } from "./settings.ts";

const LOCAL_FOLDER = "/usr/local/share/ca-certificates";
const CERTS = "etc/ssl/certs";
const BUNDLE = `${CERTS}/ca-certificates.crt`;
const OWN = `${CERTS}/sandbox-mcp.pem`;
const SUDO_FOLDER = "etc/sudoers.d";
/** sudo passes over names with a dot. */
const SUDO_RULE = `${SUDO_FOLDER}/sandbox-mcp-outside`;
/** A bundle of all public authorities has a tenth of it. */
const MAX_FILE_BYTES = 4 * 1024 * 1024;
const MAX_FILES = 200;
const MAX_OWN = 500;
const PEM_PATTERN = /-----BEGIN CERTIFICATE-----[\w\s+/=]+?-----END CERTIFICATE-----/g;

/** A change of what is written. */
const LAYOUT = 3;

export interface TrustOptions {
  readonly home: string;
  /** The one file that counts, or `off` for none; undefined for what the machine trusts. */
  readonly file: string | undefined;
  /** Files that the machine's own variables name; what cannot be read there is left out. */
  readonly files: readonly string[];
  /** Whether sandboxes have variables of a proxy. */
  readonly hasProxy: boolean;
}

export interface Trust {
  /** To be put above the layers of a template. */
  readonly layer: Layer;
  /** Of every process: where programs with a store of their own find it. */
  readonly environment: Readonly<Record<string, string>>;
}

/**
 * The layer, made where it is not there yet; undefined on a machine with no certificates of its own
 * and no proxy.
 * @throws SandboxError failed_precondition when the chosen file has none, unavailable
 */
export async function prepareTrust(options: TrustOptions): Promise<Trust | undefined> {
  const own = await findOwn(options);
  if (own.length === 0 && !options.hasProxy) return undefined;
  const facts = JSON.stringify([LAYOUT, process.versions.node, own, isRootless()]);
  const name = sha256Hex(facts).slice(0, 16);
  const target = join(options.home, "trust", name);
  const isWhole = await isThere(join(target, TREES.root, SUDO_RULE));
  const isAsMade = await isOpenTree(join(target, TREES.root));
  // Its folders would give those below their modes.
  if (!isAsMade) await discardFolder(target);
  if (!isWhole || !isAsMade) await makeTrust(target, own);
  const { root, usr } = TREES;
  return {
    layer: { root: join(target, root), usr: join(target, usr) },
    environment: own.length === 0 ? {} : ENVIRONMENT,
  };
}

const BUNDLE_VARIABLES = [
  "SSL_CERT_FILE",
  "REQUESTS_CA_BUNDLE",
  "PIP_CERT",
  "CURL_CA_BUNDLE",
  "GIT_SSL_CAINFO",
  "CARGO_HTTP_CAINFO",
  "AWS_CA_BUNDLE",
] as const;

const ENVIRONMENT: Readonly<Record<string, string>> = {
  ...Object.fromEntries(BUNDLE_VARIABLES.map((variable) => [variable, `/${BUNDLE}`])),
  // Node adds it to its own authorities: a short file is read faster.
  NODE_EXTRA_CA_CERTS: `/${OWN}`,
};

const PROXY_VARIABLES = ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"].flatMap((name) => [
  name,
  name.toLowerCase(),
]);

/** Else `sudo npm install` trusts public authorities alone, and `sudo apt-get` knows no proxy. */
const KEPT = `Defaults env_keep += "${[...Object.keys(ENVIRONMENT), ...PROXY_VARIABLES].join(" ")}"\n`;

/** The layer as it goes above these: their `/usr` may be stacked by itself. */
export function withTrust(layers: readonly Layer[], trust: Trust | undefined): readonly Layer[] {
  if (trust === undefined) return layers;
  const { root, usr } = trust.layer;
  const hasUsr = layers.some((layer) => layer.usr !== undefined);
  return [...layers, hasUsr && usr !== undefined ? { root, usr } : { root }];
}

async function makeTrust(target: string, own: readonly string[]): Promise<void> {
  try {
    await makeLayer(target, async (draft) => {
      for (const tree of [TREES.root, TREES.usr]) await makeFolder(join(draft, tree), 0o755);
      await writeSudoRule(join(draft, TREES.root));
      if (own.length > 0) {
        await writeStore(join(draft, TREES.root), own);
        for (const folder of ["root/usr", "usr"]) await writeLocal(join(draft, folder), own);
      }
      if (!isRootless()) return;
      for (const tree of [TREES.root, TREES.usr]) {
        await shiftIds(join(draft, tree), NAMESPACE_ID_BASE);
      }
    });
  } catch (error) {
    // Another process of this home was quicker.
    if (!hasErrorCode(error, "already_exists")) throw error;
  }
}

async function writeSudoRule(root: string): Promise<void> {
  await makeFolder(join(root, "etc"), 0o755);
  await makeFolder(join(root, SUDO_FOLDER), 0o750);
  await writeSetting(join(root, SUDO_RULE), KEPT, 0o440);
}

async function writeStore(root: string, own: readonly string[]): Promise<void> {
  await makeFolders(root, { path: CERTS, mode: 0o755 });
  for (const [index, pem] of own.entries()) {
    await writeSetting(join(root, CERTS, `sandbox-mcp-${index}.pem`), pem);
  }
  // Names by which OpenSSL finds them without the bundle; the variables name that, too.
  await runProgram(["openssl", "rehash", join(root, CERTS)]).catch(() => undefined);
  await writeSetting(join(root, OWN), own.join(""));
  await writeSetting(join(root, BUNDLE), [...rootCertificates.map(withNewline), ...own].join(""));
}

/** Where the package of certificates looks for those of a machine. */
async function writeLocal(usr: string, own: readonly string[]): Promise<void> {
  const folder = "local/share/ca-certificates";
  await makeFolder(usr, 0o755);
  // A layer gives its directories their modes in those below, too.
  await makeFolders(usr, { path: folder, mode: LOCAL_MODE });
  for (const [index, pem] of own.entries()) {
    await writeSetting(join(usr, folder, `sandbox-mcp-${index}.crt`), pem);
  }
}

async function makeFolders(
  root: string,
  { path, mode }: { readonly path: string; readonly mode: number },
): Promise<void> {
  let folder = root;
  for (const part of path.split("/")) {
    folder = join(folder, part);
    await makeFolder(folder, mode);
  }
}

/** Those that no public list has, in an order that does not depend on where they were found. */
async function findOwn({ file, files }: TrustOptions): Promise<string[]> {
  if (file === "off") return [];
  if (file !== undefined) return readChosen(file);
  const local = await listLocal();
  const found = new Map<string, string>();
  for (const path of [...local, ...files].slice(0, MAX_FILES)) {
    const text = await readBounded(path).catch(() => "");
    for (const [print, pem] of parsePem(text)) found.set(print, pem);
  }
  if (found.size === 0) return [];
  for (const [print] of parsePem(rootCertificates.join("\n"))) found.delete(print);
  return sorted(found);
}

async function readChosen(file: string): Promise<string[]> {
  const text = await readBounded(file).catch((error: unknown) => {
    throw new SandboxError("failed_precondition", `--ca ${file}: ${errorText(error)}`, {
      cause: error,
      hint: "name a file of PEM certificates, or off",
    });
  });
  const found = parsePem(text);
  if (found.size > 0) return sorted(found);
  throw new SandboxError("failed_precondition", `--ca ${file} has no certificate`, {
    hint: "name a file of PEM certificates, or off",
  });
}

function sorted(found: ReadonlyMap<string, string>): string[] {
  const entries = [...found].toSorted(([left], [right]) => (left < right ? -1 : 1));
  return entries.slice(0, MAX_OWN).map(([, pem]) => pem);
}

async function listLocal(): Promise<string[]> {
  try {
    const names = await readdir(LOCAL_FOLDER, { recursive: true });
    return names
      .filter((name) => name.endsWith(".crt"))
      .toSorted()
      .map((name) => join(LOCAL_FOLDER, name));
  } catch (error) {
    if (isCode(error, "ENOENT", "EACCES", "ENOTDIR")) return [];
    throw error;
  }
}

/** A device or a pipe in the place of a file would never end. */
async function readBounded(path: string): Promise<string> {
  const facts = await stat(path);
  if (!facts.isFile()) throw new Error("not a file");
  if (facts.size > MAX_FILE_BYTES) throw new Error(`more than ${MAX_FILE_BYTES} bytes`);
  return readFile(path, "utf8");
}

/** The certificates of a text by their fingerprints; what is none is left out. */
function parsePem(text: string): Map<string, string> {
  const found = new Map<string, string>();
  for (const [pem] of text.matchAll(PEM_PATTERN)) {
    try {
      const certificate = new X509Certificate(pem);
      found.set(certificate.fingerprint256, withNewline(certificate.toString().trim()));
    } catch {
      // Damaged, or of a kind that this Node does not know: no program inside could use it.
    }
  }
  return found;
}

function withNewline(pem: string): string {
  return `${pem.trim()}\n`;
}
