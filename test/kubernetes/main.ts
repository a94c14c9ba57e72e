/** `npm run kubernetes`: a real cluster in namespaces of its own, and the product on it. */

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { findPythonClient } from "../support/clients/python-client.ts";

const PYTHON_CLIENTS = ["2.45.1", "2.63.0"];
const DIRECTORY = import.meta.dirname;
const cache = process.env["KUBERNETES_CACHE"] ?? join(homedir(), ".cache/sandbox-mcp/kubernetes");

/** Exits with the status of a program that failed. */
function run(words: readonly [string, ...string[]]): void {
  const [file, ...args] = words;
  const { status } = spawnSync(file, args, { stdio: "inherit" });
  if (status !== 0) process.exit(status ?? 1);
}

const PACKAGES =
  "etcd-server docker-registry skopeo openssl gcc libc6-dev libseccomp-dev iproute2 nftables";
const missing = ["/usr/bin/etcd", "/usr/bin/docker-registry", "/usr/include/seccomp.h"].filter(
  (path) => !existsSync(path),
);
if (missing.length > 0 || process.getuid?.() !== 0) {
  process.stderr.write(`it needs root, Go 1.26 and: apt-get install -y ${PACKAGES}\n`);
  process.exit(69);
}
run([join(DIRECTORY, "cluster/build.sh"), cache]);
const home = join(cache, "home");
const archive = join(cache, "base.tar");
const program = resolve(DIRECTORY, "../../dist/main.js");
mkdirSync(home, { recursive: true, mode: 0o700 });
if (!existsSync(archive) || process.env["KUBERNETES_IMAGE"] !== "keep") {
  run([process.execPath, program, "template", "pull", "base", "--if-missing", "--home", home]);
  const words = [
    "template",
    "export",
    "base",
    archive,
    "--engine",
    "kubernetes",
    "--home",
    home,
  ] as const;
  run([process.execPath, program, ...words]);
}
// Within the namespaces there is no registry.
process.env["PYTHON_CLIENTS"] = cache;
for (const version of PYTHON_CLIENTS) {
  const { reason } = await findPythonClient(version);
  if (reason !== "") process.stdout.write(`left out: ${reason}\n`);
}
const work = mkdtempSync(join(tmpdir(), "smcp-cluster-"));
try {
  const inside = [
    process.execPath,
    join(DIRECTORY, "inside.ts"),
    join(cache, "bin"),
    work,
    archive,
    home,
  ] as const;
  // Not `run`: an exit would leave the directory.
  const enter = join(DIRECTORY, "cluster/enter.sh");
  process.exitCode = spawnSync(enter, [work, ...inside], { stdio: "inherit" }).status ?? 1;
} finally {
  rmSync(work, { recursive: true, force: true });
}
