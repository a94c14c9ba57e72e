/** `trust [install|remove]`: the local authority of the home, printed or known to the system. */

import { access, constants, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { errorText, isCode, SandboxError } from "../common/errors.ts";
import { isThere, writeDurably } from "../common/files.ts";
import { quoteWord } from "../common/shell-word.ts";
import { findProgram } from "../engine/host/find-program.ts";
import { runProgram } from "../engine/host/run-program.ts";
import { openHome } from "./home/home.ts";
import { EXIT_OK, type CommandContext } from "./program/command.ts";
import { openAuthority, requireDomain, type LocalAuthority } from "./serve/local-authority.ts";

const REFRESH_TIMEOUT_MS = 120_000;

/** Where a system keeps authorities that were added to its own, and what makes them count. */
const STORES = [
  {
    directory: "/usr/local/share/ca-certificates",
    program: "update-ca-certificates",
    words: ["--fresh"],
  },
  {
    directory: "/etc/pki/ca-trust/source/anchors",
    program: "update-ca-trust",
    words: ["extract"],
  },
  {
    directory: "/etc/ca-certificates/trust-source/anchors",
    program: "update-ca-trust",
    words: [],
  },
] as const;

type SystemStore = (typeof STORES)[number];

export async function runTrust({ config, words }: CommandContext): Promise<number> {
  const [action = "print", ...rest] = words;
  if (rest.length > 0 || !["print", "install", "remove"].includes(action)) {
    throw new SandboxError("invalid_argument", `trust ${words.join(" ")}: no such action`, {
      hint: "trust prints the authority's certificate, trust install adds it to the system's, trust remove takes it away",
    });
  }
  const { home, domain } = config;
  // The home may have been removed before.
  if (action === "remove") return remove(requireDomain(domain));
  await openHome(home);
  const authority = await openAuthority({ home, domain }, Date.now());
  return action === "print" ? print(authority) : install(authority);
}

async function install({ certificate, domain, path: source }: LocalAuthority): Promise<number> {
  const store = await findStore();
  const path = pathIn(store, domain);
  const asRoot = `install -m 644 ${quoteWord(source)} ${path}`;
  await changeStore(store, asRoot, () => writeDurably(path, certificate, 0o644));
  process.stdout.write(`installed ${path}\n`);
  process.stderr.write(
    "sandbox-mcp: Node reads the system's store with NODE_USE_SYSTEM_CA=1; browsers may keep a list of their own\n",
  );
  return EXIT_OK;
}

async function remove(domain: string): Promise<number> {
  const store = await findStore();
  const path = pathIn(store, domain);
  const wasThere = await isThere(path);
  // In any case: an earlier removal may have ended before what follows it.
  await changeStore(store, `rm -f ${path}`, () => rm(path, { force: true }));
  process.stdout.write(wasThere ? `removed ${path}\n` : `${path} was not there\n`);
  return EXIT_OK;
}

function pathIn({ directory }: SystemStore, domain: string): string {
  return join(directory, `sandbox-mcp-${domain}.crt`);
}

/** The certificate alone, so that the output is a file for clients; what it is goes to stderr. */
function print({ certificate, path, domain }: LocalAuthority): number {
  process.stdout.write(certificate);
  process.stderr.write(
    `sandbox-mcp: ${path}, good for ${domain}, names below it and this machine's loopback addresses\n`,
  );
  return EXIT_OK;
}

/** @throws SandboxError unavailable where the system has no list that programs can add to. */
async function findStore(): Promise<SystemStore> {
  for (const store of STORES) {
    if (findProgram(store.program) === undefined) continue;
    const isDirectory = await stat(store.directory).then(
      (found) => found.isDirectory(),
      () => false,
    );
    if (isDirectory) return store;
  }
  throw new SandboxError("unavailable", "no list of authorities that can be added to was found", {
    hint: "install the package ca-certificates, or give clients the output of `sandbox-mcp trust` by NODE_EXTRA_CA_CERTS and SSL_CERT_FILE",
  });
}

/**
 * The hint has the commands of the system: root does not use the home of another user.
 * @param asRoot - The change as a command.
 * @throws SandboxError unavailable without the right to change it.
 */
async function changeStore(
  { directory, program, words }: SystemStore,
  asRoot: string,
  change: () => Promise<void>,
): Promise<void> {
  const refresh = [program, ...words] as const;
  try {
    // A removal of nothing needs the right, too: the refresh after it fails without.
    await access(directory, constants.W_OK);
    await change();
  } catch (error) {
    const isDenied = isCode(error, "EACCES", "EPERM", "EROFS");
    throw new SandboxError("unavailable", `the system's authorities: ${errorText(error)}`, {
      cause: error,
      ...(isDenied && { hint: `run as root: ${asRoot} && ${refresh.join(" ")}` }),
    });
  }
  await runProgram(refresh, { timeoutMs: REFRESH_TIMEOUT_MS });
}
