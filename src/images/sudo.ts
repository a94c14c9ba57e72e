/**
 * sudo in an image: a rule for its users where the image has it, else a stand-in that needs no
 * library of the image: a program of a few instructions that becomes root and runs a shell script.
 */

import { SandboxError } from "../common/errors.ts";
import { findSudoGroup } from "./accounts.ts";
import { MAX_TEXT_BYTES } from "./contents.ts";
import { STAND_INS } from "./stand-ins.ts";
import type { TreeWriter } from "./tree-writer.ts";

const PLACES = ["/usr/bin/sudo", "/usr/local/bin/sudo", "/bin/sudo"] as const;
const SUDOERS = "/etc/sudoers";
const RULE = "%sudo ALL=(ALL:ALL) NOPASSWD: ALL\n";
const SCRIPT_PATH = `${STAND_INS}/sudo.sh`;
/** Only members of the group sudo may run it, and it runs as root. */
const STAND_IN_MODE = 0o4750;

const SCRIPT = `#!/bin/sh
# Stands in for sudo in an image that has none. Only members of the group sudo can start it.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
user=root alone=
while [ $# -gt 0 ]; do
  case "$1" in
    -u|--user) user=$2; shift 2 ;;
    --user=*) user=\${1#--user=}; shift ;;
    -i|-s|--login|--shell) alone=/bin/sh; shift ;;
    -k|-v|--reset-timestamp|--validate) alone=true; shift ;;
    -n|-E|-H|-S|--preserve-env|--non-interactive|--set-home) shift ;;
    --preserve-env=*) shift ;;
    --) shift; break ;;
    -*) echo "sudo: option $1 is not known here" >&2; exit 1 ;;
    *) break ;;
  esac
done
[ -n "$*$alone" ] || { echo "sudo: the command is missing" >&2; exit 1; }
[ $# -gt 0 ] || set -- "$alone"
if [ "$user" = root ]; then
  HOME=/root USER=root LOGNAME=root
  export HOME USER LOGNAME
  exec env "$@"
fi
# The su of busybox passes the two dashes on, that of util-linux does not.
exec su -m -s /bin/sh "$user" -c '[ "$0" != -- ] || shift; exec env "$@"' -- sudo "$@"
`;

/** Says whether the image had none. */
export async function giveSudo(files: TreeWriter): Promise<boolean> {
  files.makeDirectory("/etc/sudoers.d", 0o750);
  await files.write("/etc/sudoers.d/sandbox-mcp", RULE, { mode: 0o440 });
  const program = standIn(SCRIPT_PATH);
  // An image that was exported has the stand-in of its first import.
  const isOwn = (await files.read(PLACES[0])) === program.toString("latin1");
  if (!isOwn && PLACES.some((path) => files.isProgram(path))) {
    await includeRules(files);
    return false;
  }
  await files.write(SCRIPT_PATH, SCRIPT, { mode: 0o755 });
  const gid = await findSudoGroup(files);
  await files.write(PLACES[0], program, { mode: STAND_IN_MODE, gid });
  return true;
}

async function includeRules(files: TreeWriter): Promise<void> {
  const found = await files.read(SUDOERS);
  if (found === undefined && files.isFile(SUDOERS)) {
    const message = `the image cannot be a sandbox: its ${SUDOERS} has more than ${MAX_TEXT_BYTES} bytes`;
    throw new SandboxError("failed_precondition", message);
  }
  const text = found ?? "root ALL=(ALL:ALL) ALL\n";
  if (/^[@#]includedir\s+\/etc\/sudoers\.d\s*$/m.test(text)) return;
  const end = text.endsWith("\n") ? "" : "\n";
  await files.write(SUDOERS, `${text}${end}@includedir /etc/sudoers.d\n`, { mode: 0o440 });
}

const BASE = 0x400000n;
const HEADERS_BYTES = 120;
const READ_EXECUTE = 5;
const PAGE = 0x1000n;

/** setgroups(0), setresgid(0, 0, 0), setresuid(0, 0, 0), execve(path, argv, environment), exit(111). */
const CODE: Readonly<Record<string, { readonly machine: number; readonly code: string }>> = {
  x64: {
    machine: 62,
    code: `31ff31f6 b874000000 0f05
      31ff31f631d2 b877000000 0f05
      31ff31f631d2 b875000000 0f05
      488b0c24 488d742408 488d54ce08 488d3d13000000 b83b000000 0f05
      bf6f000000 b8e7000000 0f05`,
  },
  arm64: {
    machine: 183,
    code: `000080d2 010080d2 e81380d2 010000d4
      000080d2 010080d2 020080d2 a81280d2 010000d4
      000080d2 010080d2 020080d2 681280d2 010000d4
      e30340f9 e1230091 220c038b 42200091 e0000010 a81b80d2 010000d4
      e00d80d2 c80b80d2 010000d4 1f2003d5`,
  },
};

/** A program without libraries; the path stands after its last instruction. */
export function standIn(path: string, architecture: string = process.arch): Buffer {
  const form = CODE[architecture];
  if (form === undefined) throw new SandboxError("internal", `no sudo for ${architecture}`);
  const code = Buffer.from(form.code.replaceAll(/\s/g, ""), "hex");
  const text = Buffer.concat([code, Buffer.from(`${path}\0`, "latin1")]);
  const size = BigInt(HEADERS_BYTES + text.length);
  const headers = Buffer.alloc(HEADERS_BYTES);
  headers.write("7f454c46020101", 0, "hex");
  headers.writeUInt16LE(2, 16);
  headers.writeUInt16LE(form.machine, 18);
  headers.writeUInt32LE(1, 20);
  headers.writeBigUInt64LE(BASE + BigInt(HEADERS_BYTES), 24);
  headers.writeBigUInt64LE(64n, 32);
  headers.writeUInt16LE(64, 52);
  headers.writeUInt16LE(56, 54);
  headers.writeUInt16LE(1, 56);
  headers.writeUInt32LE(1, 64);
  headers.writeUInt32LE(READ_EXECUTE, 68);
  headers.writeBigUInt64LE(BASE, 80);
  headers.writeBigUInt64LE(BASE, 88);
  headers.writeBigUInt64LE(size, 96);
  headers.writeBigUInt64LE(size, 104);
  headers.writeBigUInt64LE(PAGE, 112);
  return Buffer.concat([headers, text]);
}
