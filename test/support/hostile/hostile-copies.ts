/** Archives of COPY steps that were made to do harm, by what becomes of them. */

import { gzipSync } from "node:zlib";
import {
  gnuLongName,
  tar,
  TAR_END,
  tarEntry,
  tarHeader,
  type TarItem,
} from "../images/tar-writer.ts";

export interface HostileCopy {
  readonly name: string;
  readonly archive: Buffer;
  /** Of the step, before the owner; default all of the archive to `/srv/in/`. */
  readonly args?: readonly [source: string, target: string];
  readonly owner?: string;
  /** Of the reason of the build; absent: the build is ready. */
  readonly refused?: RegExp;
  /** What a program in a sandbox of the template says. */
  readonly seen?: readonly [command: string, output: string];
}

const EVIL = "evil";
const GIB = 1024 ** 3;
const file = (path: string, more: Partial<TarItem> = {}): TarItem => ({
  path,
  data: EVIL,
  ...more,
});
const link = (path: string, target: string): TarItem => ({ path, type: "2", link: target });
const hard = (path: string, target: string): TarItem => ({ path, type: "1", link: target });
/** tar itself says no, or the copy that follows. */
const FAILED = /^copy of .* failed with exit code [0-9]+$/;
const NONE = ["cat /etc/evil /evil 2>/dev/null; echo none", "none\n"] as const;
const ASIDE = ["ls /etc/evil 2>/dev/null; find /srv -type f | sort", ""] as const;

const whole = tar(file("a"));

/** A sparse file of GNU's old form: one byte of data, and a length of a tebibyte. */
function sparseFile(): Buffer {
  const header = tarHeader({
    path: "sparse",
    type: "S",
    form: "gnu",
    size: 512,
    patch: [
      [386, "00000000000\0"],
      [398, "00000001000\0"],
      [483, (1024 * GIB).toString(8).slice(-12)],
    ],
  });
  return Buffer.concat([header, Buffer.alloc(512, "x"), TAR_END]);
}

const LEADS_OUT: readonly HostileCopy[] = [
  {
    name: "an absolute path stays below the target",
    archive: tar(file("/etc/evil")),
    seen: [ASIDE[0], "/srv/in/etc/evil\n"],
  },
  { name: "a path with ..", archive: tar(file("../../../../etc/evil")), refused: FAILED },
  {
    name: "a path with .. in its middle",
    archive: tar(file("a/../../../etc/evil")),
    refused: FAILED,
  },
  {
    name: "a path with .. in a record of pax",
    archive: tar(file("a", { pax: [["path", "../../../../etc/evil"]] })),
    refused: FAILED,
  },
  {
    name: "a path with .. in a long name of GNU",
    archive: tar(gnuLongName("../../../../etc/evil"), file("a")),
    refused: FAILED,
  },
  {
    name: "a file through a link to a directory outside",
    archive: tar(link("l", "/etc"), file("l/evil")),
    refused: FAILED,
  },
  {
    name: "a file through a link upwards",
    archive: tar(link("l", "../../../../etc"), file("l/evil")),
    refused: FAILED,
  },
  {
    name: "a file over a link to a file outside is the link",
    archive: tar(link("l", "/etc/evil"), file("l")),
    seen: ["ls /etc/evil 2>/dev/null; readlink /srv/in/l", "/etc/evil\n"],
  },
  {
    name: "a hard link to a file outside",
    archive: tar(hard("h", "/etc/shadow")),
    refused: FAILED,
  },
  { name: "a hard link upwards", archive: tar(hard("h", "../../etc/shadow")), refused: FAILED },
  {
    name: "a hard link through a link",
    archive: tar(link("l", "/etc"), hard("h", "l/shadow")),
    refused: FAILED,
  },
  {
    name: "a source with ..",
    archive: whole,
    args: ["../../etc/shadow", "/srv/in"],
    refused: FAILED,
  },
  {
    name: "a source through a link of the archive",
    archive: tar(link("l", "/etc")),
    args: ["l/shadow", "/srv/in"],
    refused: FAILED,
  },
  {
    name: "a source that is the folder above",
    archive: whole,
    args: ["..", "/srv/in"],
    refused: FAILED,
  },
  {
    name: "a link of the archive with a slash behind it",
    archive: tar(link("l", "/etc")),
    args: ["l/", "/srv/in"],
    refused: FAILED,
  },
  {
    name: "a link upwards with a slash behind it",
    archive: tar(link("l", "..")),
    args: ["l/", "/srv/in"],
    refused: FAILED,
  },
  {
    name: "a pattern for hidden names does not mean the folder above",
    archive: tar(file(".hidden"), file("a")),
    args: [".*", "/srv/in/"],
    seen: ["ls -A /srv/in", ".hidden\n"],
  },
  {
    name: "marks of removals of layers are plain files",
    archive: tar(file("a"), file(".wh.a"), file("d/.wh..wh..opq"), file("d/b")),
    seen: ["cd /srv/in; find . -type f | LC_ALL=C sort", "./.wh.a\n./a\n./d/.wh..wh..opq\n./d/b\n"],
  },
  {
    name: "a link of the archive is copied as a link",
    archive: tar(link("l", "/etc/shadow")),
    args: ["l", "/srv/in"],
    seen: ["readlink /srv/in", "/etc/shadow\n"],
  },
  {
    name: "a target in the daemon's directory",
    archive: whole,
    args: ["a", "/run/sandbox-mcp/daemon.cjs"],
    refused: FAILED,
  },
  {
    name: "a target in proc",
    archive: whole,
    args: ["a", "/proc/sys/kernel/core_pattern"],
    refused: FAILED,
  },
];

const KINDS: readonly HostileCopy[] = [
  {
    name: "a character device",
    archive: tar({
      path: "mem",
      type: "3",
      patch: [
        [329, "0000001\0"],
        [337, "0000001\0"],
      ],
    }),
    refused: FAILED,
  },
  {
    name: "a block device",
    archive: tar({
      path: "disk",
      type: "4",
      patch: [
        [329, "0000010\0"],
        [337, "0000000\0"],
      ],
    }),
    refused: FAILED,
  },
  {
    name: "a pipe blocks nobody",
    archive: tar({ path: "pipe", type: "6" }),
    seen: ["stat -c %F /srv/in/pipe", "fifo\n"],
  },
  {
    name: "a program with a set-user-id bit is the caller's own",
    archive: tar(file("su", { mode: 0o4755 })),
    seen: ["stat -c '%a %U' /srv/in/su", "4755 user\n"],
  },
  {
    name: "attributes of pax that would be capabilities",
    archive: tar(file("cap", { pax: [["SCHILY.xattr.security.capability", "\u0001\0\0\u0002"]] })),
    seen: ["getcap /srv/in/cap 2>/dev/null; cat /srv/in/cap", EVIL],
  },
  {
    name: "names that are options and lines",
    archive: tar(file("--checkpoint-action=exec=touch evil"), file("-rf"), file("two\nlines")),
    seen: ["ls /srv/in | wc -l; ls /evil /srv/evil 2>/dev/null", "4\n"],
  },
  {
    name: "a pattern of a source that would be a command",
    archive: whole,
    args: ["$(touch /etc/evil)`touch /etc/evil`*", "/srv/in"],
    refused: FAILED,
  },
];

const BYTES: readonly HostileCopy[] = [
  { name: "no archive at all", archive: Buffer.from("no archive".repeat(200)), refused: FAILED },
  {
    name: "an archive of zeros is empty",
    archive: Buffer.alloc(10_240),
    seen: ["ls /srv/in | wc -l", "0\n"],
  },
  {
    name: "an archive that ends within a file",
    archive: tarEntry(file("a", { data: "x".repeat(5_000) })).subarray(0, 2_000),
    refused: FAILED,
  },
  {
    name: "a compressed archive that ends early",
    archive: gzipSync(tar(file("a", { data: "x".repeat(50_000) }))).subarray(0, 60),
    refused: /answered 400 "error decompressing/,
  },
  {
    name: "a header with a wrong checksum",
    archive: tar(file("a"), file("b", { checksum: "000001\0 " })),
    refused: FAILED,
  },
  {
    name: "a length beyond the end",
    archive: tar(file("a", { size: 7 * GIB })),
    refused: FAILED,
  },
  {
    name: "a negative length",
    archive: tar(file("a", { size: Buffer.alloc(12, 0xff) })),
    refused: FAILED,
  },
  {
    name: "two archives are the first",
    archive: Buffer.concat([whole, tar(file("b"))]),
    seen: ["ls /srv/in", "a\n"],
  },
  {
    name: "a bomb of zeros",
    archive: gzipSync(tar(file("zeros", { data: Buffer.alloc(256 * 1024 ** 2) }))),
    refused: /answered 507 "not enough disk space/,
  },
  { name: "a sparse file of a tebibyte", archive: sparseFile(), refused: FAILED },
];

export const HOSTILE_COPIES: readonly HostileCopy[] = [...LEADS_OUT, ...KINDS, ...BYTES];
/** After every build. */
export const HARMLESS: readonly [command: string, output: string] = NONE;
