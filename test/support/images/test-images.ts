/** Small images that boot: one of the family of Debian made from base, one of that of Alpine. */

import { execFile } from "node:child_process";
import { readFile, realpath } from "node:fs/promises";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { baseLayers } from "../base-layer.ts";
import { findTestTool } from "../test-tools.ts";
import { tar, type TarItem } from "./tar-writer.ts";

const run = promisify(execFile);
const folder = (path: string): TarItem => ({ path: `${path}/`, type: "5", mode: 0o755 });
const link = (path: string, target: string): TarItem => ({ path, type: "2", link: target });
const PROGRAMS = ["bash", "cat", "env", "id", "ls", "su", "sleep"] as const;

/** Programs of base with their libraries, without bash where that is left out. */
export async function debianLayer(programs: readonly string[] = PROGRAMS): Promise<Buffer> {
  const [layer] = await baseLayers();
  const root = layer?.root ?? "";
  const paths = new Map<string, string>();
  for (const name of ["dash", ...programs]) {
    paths.set(`usr/bin/${name}`, join(root, "usr/bin", name));
    const { stdout } = await run("chroot", [root, "/usr/bin/ldd", `/usr/bin/${name}`]);
    for (const [, library = ""] of stdout.matchAll(/(?:=> )?(\/\S+) \(0x/g)) {
      paths.set(join("usr", library.replace(/^\/usr/, "")), await inRoot(root, library));
    }
  }
  const files: TarItem[] = [];
  for (const [path, source] of paths) {
    const mode = basename(path) === "su" ? 0o4755 : 0o755;
    files.push({ path, data: await readFile(source), mode });
  }
  return tar(
    ...["etc", "usr", "usr/bin", "usr/lib", "usr/lib64", "home", "root", "tmp"].map(folder),
    ...["bin", "lib", "lib64"].map((name) => link(name, `usr/${name}`)),
    ...files,
    link("usr/bin/sh", "dash"),
    { path: "etc/os-release", data: 'ID=debian\nVERSION_CODENAME="bookworm"\n' },
    {
      path: "etc/passwd",
      data: "root:x:0:0:root:/root:/bin/bash\nnode:x:1000:1000::/home/node:/bin/sh\n",
    },
    { path: "etc/group", data: "root:x:0:\nnode:x:1000:\n" },
    { path: "etc/shadow", data: "root:*:19000:0:99999:7:::\n", mode: 0o640 },
    { path: "etc/ssl/certs/ca-certificates.crt", data: "of the image\n" },
    { path: "home/node/.keep", data: "", uid: 1000, gid: 1000 },
  );
}

async function inRoot(root: string, path: string): Promise<string> {
  const { stdout } = await run("chroot", [root, "/usr/bin/realpath", path]);
  return realpath(join(root, stdout.trim()));
}

const APPLETS = ["sh", "cat", "env", "grep", "id", "ls", "sed", "sleep", "su"] as const;

/** Of Alpine, less what is for people. */
const PROFILE = `export PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
for script in /etc/profile.d/*.sh ; do
  if [ -r "$script" ] ; then
    . "$script"
  fi
done
`;

/** A shell that is no part of a C library of GNU, and the loader of musl. */
export async function alpineLayer(): Promise<Buffer> {
  const busybox = await readFile(await findTestTool("busybox"));
  const musl = await findTestTool("ld-musl");
  return tar(
    ...["bin", "etc", "lib"].map(folder),
    { path: "bin/busybox", data: busybox, mode: 0o755 },
    ...APPLETS.map((name) => link(`bin/${name}`, "busybox")),
    { path: `lib/${basename(musl)}`, data: await readFile(musl), mode: 0o755 },
    { path: "etc/os-release", data: "ID=alpine\n" },
    { path: "etc/passwd", data: "root:x:0:0:root:/root:/bin/sh\n" },
    { path: "etc/group", data: "root:x:0:root\nwheel:x:10:root\n" },
    { path: "etc/profile", data: PROFILE },
  );
}
