/**
 * Other programs that do such work, installed beside the bench and never a part of the product: from
 * npm and from Debian's archive, unpacked into one folder that is kept between runs.
 */

import { execFile } from "node:child_process";
import { access, mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { errorText } from "../src/common/errors.ts";

const run = promisify(execFile);

/** Not the temporary folder of the run: what was fetched once serves the next run too. */
const FOLDER = "/var/tmp/sandbox-mcp-bench";
const INSTALL_TIMEOUT_MS = 60_000;

/** Versions are pinned: another one is another measure. */
const PACKAGES = {
  filesystem: ["@modelcontextprotocol/server-filesystem", "2026.8.31", "dist/index.js"],
  commands: ["mcp-server-commands", "0.5.0", "build/index.js"],
  processes: ["@wonderwhy-er/desktop-commander", "0.2.52", "dist/index.js"],
  sandboxRuntime: ["@anthropic-ai/sandbox-runtime", "0.0.83", "dist/cli.js"],
} as const;

/** Debian packages, with the libraries that a small system may lack. */
const ARCHIVES = {
  bwrap: { packages: ["bubblewrap"], program: "usr/bin/bwrap" },
  inotifywait: {
    packages: ["inotify-tools", "libinotifytools0"],
    program: "usr/bin/inotifywait",
  },
  umoci: { packages: ["umoci"], program: "usr/bin/umoci" },
  podman: {
    packages: [
      "podman",
      "conmon",
      "libassuan0",
      "libdevmapper1.02.1",
      "libglib2.0-0",
      "libgpgme11",
      "libsubid4",
    ],
    program: "usr/bin/podman",
  },
  runsc: { packages: ["runsc"], program: "usr/bin/runsc" },
  // What sandbox-runtime asks for besides.
  ripgrep: { packages: ["ripgrep"], program: "usr/bin/rg" },
  socat: { packages: ["socat", "libwrap0"], program: "usr/bin/socat" },
} as const;

/** Where a peer is, or why it is not there. */
export type Found = { readonly path: string } | { readonly missing: string };

export interface Peers {
  readonly npm: Readonly<Record<keyof typeof PACKAGES, Found>>;
  readonly debian: Readonly<Record<keyof typeof ARCHIVES, Found>>;
  /** For the dynamic linker: programs of the archives bring libraries. */
  readonly libraryPath: string;
  /** Where the programs of the archives are. */
  readonly binaryPath: string;
}

/** Installs what is missing, as far as that works here; a row says what did not. */
export async function installPeers(): Promise<Peers> {
  await mkdir(FOLDER, { recursive: true });
  const npm = await installPackages();
  const debian = {
    bwrap: await installArchive("bwrap"),
    inotifywait: await installArchive("inotifywait"),
    runsc: await installArchive("runsc"),
    umoci: await installArchive("umoci"),
    podman: await installArchive("podman"),
    ripgrep: await installArchive("ripgrep"),
    socat: await installArchive("socat"),
  };
  const libraries = join(FOLDER, "debian/usr/lib");
  const [triplet = ""] = (await list(libraries)).filter((name) => name.includes("-linux-"));
  return {
    npm,
    debian,
    libraryPath: join(libraries, triplet),
    binaryPath: join(FOLDER, "debian/usr/bin"),
  };
}

async function installPackages(): Promise<Peers["npm"]> {
  const wanted = Object.values(PACKAGES);
  let fault = "";
  try {
    await Promise.all(wanted.map(async (entry) => access(locate(entry))));
  } catch {
    fault = await fetchPackages(wanted.map(([name, version]) => `${name}@${version}`));
  }
  const find = async (entry: readonly [string, string, string]): Promise<Found> => {
    const path = locate(entry);
    return (await isThere(path)) ? { path } : { missing: `not installed: ${fault}` };
  };
  return {
    filesystem: await find(PACKAGES.filesystem),
    commands: await find(PACKAGES.commands),
    processes: await find(PACKAGES.processes),
    sandboxRuntime: await find(PACKAGES.sandboxRuntime),
  };
}

function locate([name, , file]: readonly [string, string, string]): string {
  return join(FOLDER, "node_modules", name, file);
}

/** Why it failed; empty when it did not. */
async function fetchPackages(packages: readonly string[]): Promise<string> {
  const manifest = join(FOLDER, "package.json");
  if (!(await isThere(manifest))) await writeFile(manifest, '{"private":true}\n');
  const flags = ["--ignore-scripts", "--no-audit", "--no-fund", "--omit=optional"];
  return attempt("npm", ["install", ...flags, ...packages], FOLDER);
}

async function installArchive(name: keyof typeof ARCHIVES): Promise<Found> {
  const { packages, program } = ARCHIVES[name];
  const root = join(FOLDER, "debian");
  const path = join(root, program);
  if (await isThere(path)) return { path };
  const downloads = join(FOLDER, "archives", name);
  await mkdir(downloads, { recursive: true });
  const fault = await attempt("apt-get", ["download", ...packages], downloads);
  if (fault !== "") return { missing: `not installed: ${fault}` };
  for (const file of (await list(downloads)).filter((entry) => entry.endsWith(".deb"))) {
    await attempt("dpkg-deb", ["-x", join(downloads, file), root], FOLDER);
  }
  return (await isThere(path)) ? { path } : { missing: "not installed: archive without it" };
}

async function attempt(file: string, args: readonly string[], cwd: string): Promise<string> {
  try {
    await run(file, [...args], { cwd, timeout: INSTALL_TIMEOUT_MS });
    return "";
  } catch (error) {
    return (errorText(error).split("\n")[0] ?? "").slice(0, 80);
  }
}

async function isThere(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

async function list(path: string): Promise<string[]> {
  return readdir(path).catch(() => []);
}
