/**
 * What an image lacks to be a sandbox, put into its tree: the accounts `root` and `user`, sudo, bash
 * and certificates, all without a network; and the reasons why an image cannot be one.
 */

import { rootCertificates } from "node:tls";
import { SandboxError } from "../common/errors.ts";
import { REAL_FOLDERS } from "../engine/storage/rootfs.ts";
import { LOGIN_PATH, LOGIN_PATH_FILE } from "../engine/templates/login-path.ts";
import { HOSTS, LOCAL_MODE, RESOLVER } from "../engine/templates/settings.ts";
import { addUser, findHome } from "./accounts.ts";
import { giveBash } from "./bash.ts";
import type { Contents } from "./contents.ts";
import type { ImageFamily } from "./images.ts";
import { STAND_INS } from "./stand-ins.ts";
import { giveSudo } from "./sudo.ts";
import { createTreeWriter, type TreeWriter } from "./tree-writer.ts";
import type { Tree } from "./tree.ts";

export interface ReadyOptions {
  readonly tree: Tree;
  readonly contents: Contents;
  /** As the configuration of the image names it. */
  readonly user: string;
  /** As the configuration of the image names it, in Unicode. */
  readonly workdir: string | undefined;
  readonly signal: AbortSignal;
}

export interface Ready {
  readonly family: ImageFamily;
  readonly standIns: readonly string[];
  readonly installCommand: string | undefined;
  /** The name of the image's user, where its accounts have it. */
  readonly user: string | undefined;
  /** Absolute, of the image's user or else of `user`; `/` where that can be no directory. */
  readonly home: string;
}

const STICKY = 0o1777;
const FOLDER_MODES: Readonly<Record<string, number>> = {
  proc: 0o555,
  root: 0o700,
  sys: 0o555,
  tmp: STICKY,
};

/** @throws SandboxError failed_precondition for an image that cannot be a sandbox */
export async function readyTree(options: ReadyOptions): Promise<Ready> {
  const { tree, contents, user, workdir, signal } = options;
  tree.nextLayer();
  const files = createTreeWriter(tree, contents);
  for (const name of REAL_FOLDERS) requireFolder(tree, files, name);
  await requireShell(tree, contents);
  const family = await findFamily(files);
  const account = await addUser(files, user);
  openLocal(tree);
  const standIns = [
    ...((await giveBash(files, signal)) ? ["bash"] : []),
    ...((await giveSudo(files)) ? ["sudo"] : []),
    ...((await giveCertificates(files)) ? ["ca-certificates"] : []),
  ];
  // A configuration may name one that no layer has.
  if (workdir !== undefined) files.makeDirectory(Buffer.from(workdir).toString("latin1"), 0o755);
  await files.write("/etc/hosts", HOSTS);
  await files.write("/etc/resolv.conf", RESOLVER);
  await files.write("/etc/hostname", "sandbox\n");
  await files.write("/etc/machine-id", "");
  await files.write(LOGIN_PATH_FILE, LOGIN_PATH);
  return {
    family,
    standIns,
    installCommand: standIns.length === 0 ? undefined : INSTALL[family]?.(standIns.join(" ")),
    user: account,
    home: await findHome(files, account ?? "user"),
  };
}

function requireFolder(tree: Tree, files: TreeWriter, name: string): void {
  const node = tree.look(name);
  if (node === undefined) files.makeDirectory(`/${name}`, FOLDER_MODES[name] ?? 0o755);
  else if (node.kind !== "directory") refuse(`/${name} of it is no real directory`);
}

/**
 * As `openLocal` of built-in templates. Only root writes the stand-ins: they come later, and an image that
 * was exported has them already.
 */
function openLocal(tree: Tree): void {
  const local = tree.find("/usr/local")?.node;
  const standIns = tree.find(STAND_INS)?.node;
  const folders = local?.kind === "directory" ? [local] : [];
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    folder.meta = { ...folder.meta, mode: folder.meta.mode | LOCAL_MODE };
    for (const child of folder.children.values()) {
      if (child.kind === "directory" && child !== standIns) folders.push(child);
    }
  }
}

function refuse(reason: string): never {
  throw new SandboxError("failed_precondition", `the image cannot be a sandbox: ${reason}`, {
    hint: "take an image with a shell whose system directories are directories",
  });
}

const ELF = "7f454c46";
const HEAD_BYTES = 20;
const MACHINE_AT = 18;
/** By Node's names of processors. */
const MACHINES: Readonly<Record<string, number>> = { x64: 62, arm64: 183 };

/** Every command of a client is started by a shell. */
async function requireShell(tree: Tree, contents: Contents): Promise<void> {
  const shell = tree.find("/bin/sh")?.node;
  if (shell?.kind !== "file") refuse("it has no shell at /bin/sh");
  if ((shell.meta.mode & 0o111) === 0) refuse("its /bin/sh is no program");
  const head = await contents.head(shell.content, HEAD_BYTES);
  if (head.length < HEAD_BYTES || head.toString("hex", 0, 4) !== ELF) {
    refuse("its /bin/sh is no program of Linux");
  }
  if (head.readUInt16LE(MACHINE_AT) !== MACHINES[process.arch]) {
    refuse(`its programs are not for ${process.arch}`);
  }
}

const FAMILIES: readonly (readonly [word: string, family: ImageFamily])[] = [
  ["debian", "debian"],
  ["ubuntu", "debian"],
  ["alpine", "alpine"],
  ["fedora", "fedora"],
  ["rhel", "fedora"],
  ["centos", "fedora"],
];

const INSTALL: Readonly<Partial<Record<ImageFamily, (packages: string) => string>>> = {
  debian: (packages) => `apt-get update && apt-get install -y --no-install-recommends ${packages}`,
  alpine: (packages) => `apk add --no-cache ${packages}`,
  fedora: (packages) => `dnf install -y ${packages}`,
};

async function findFamily(files: TreeWriter): Promise<ImageFamily> {
  const text = (await files.read("/etc/os-release")) ?? (await files.read("/usr/lib/os-release"));
  const words = [...(text ?? "").matchAll(/^(?:ID|ID_LIKE)=(.*)$/gm)].flatMap(([, value = ""]) =>
    value.replaceAll(/["']/g, "").split(/\s+/),
  );
  return FAMILIES.find(([word]) => words.includes(word))?.[1] ?? "other";
}

/** Where the families have their bundles. */
const BUNDLES = [
  "/etc/ssl/certs/ca-certificates.crt",
  "/etc/pki/tls/certs/ca-bundle.crt",
  "/etc/ssl/cert.pem",
] as const;

/** The public authorities that this program's Node knows; says whether there were none. */
async function giveCertificates(files: TreeWriter): Promise<boolean> {
  if (BUNDLES.some((path) => files.isFile(path))) return false;
  await files.write(BUNDLES[0], rootCertificates.map((pem) => `${pem.trim()}\n`).join(""));
  return true;
}
