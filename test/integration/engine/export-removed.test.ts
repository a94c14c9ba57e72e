/**
 * Exports that must not write: of layers that are removed meanwhile, and to what is no file. The error
 * says why. Nor does one write a file that its end would leave, or that a power cut would empty.
 */

import { execFileSync } from "node:child_process";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { existsSync, readdirSync, readlinkSync } from "node:fs";
import {
  mkdir,
  open,
  readdir,
  readFile,
  rm,
  stat,
  symlink,
  writeFile,
  type FileHandle,
} from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, test, vi } from "vitest";
import { SandboxError } from "../../../src/common/errors.ts";
import { isRootless } from "../../../src/common/privilege.ts";
import type { StepMessage } from "../../../src/common/steps.ts";
import { exportImage } from "../../../src/images/export.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

/** Of somebody else, beside the archive. */
const OTHER = "of another program";
const REMOVED = "mine was removed while it was exported";

/** Exports a layer; `removed` says how much of it is gone when the export reads it. */
async function exportLayer(removed: "nothing" | "contents" | "layer", file = "mine.tar") {
  await using folder = await makeTempFolder();
  const root = join(folder.path, "layers/mine/root");
  await mkdir(join(root, "etc"), { recursive: true });
  await writeFile(join(root, "etc/file"), "");
  const out = join(folder.path, "out");
  await mkdir(join(out, "folder"), { recursive: true });
  await symlink("linked.tar", join(out, "link.tar"));
  await symlink("new.tar", join(out, "early.tar"));
  await symlink("absent/mine.tar", join(out, "wrong.tar"));
  await writeFile(join(out, "linked.tar"), "of before");
  for (const name of ["mine.tar.part", "linked.tar.part"]) await writeFile(join(out, name), OTHER);
  execFileSync("mknod", [join(out, "device"), "c", "1", "3"]);
  const task = {
    home: folder.path,
    layers: [{ root }],
    name: "mine",
    config: {
      env: [],
      workdir: "/",
      user: "user",
      entrypoint: [],
      cmd: [],
      exposedPorts: [],
      labels: {},
    },
    perlDirectory: PERL_DIRECTORY,
    signal: AbortSignal.timeout(20_000),
    requireLayers() {
      if (removed !== "nothing") throw new SandboxError("not_found", REMOVED);
    },
  };
  const seen: string[] = [];
  const look = (message: unknown) => {
    // The channel carries this type alone.
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion
    if ((message as StepMessage).name === "export.written") seen.push(...readdirSync(out));
  };
  subscribe("sandbox-mcp:step", look);
  if (removed === "contents") await rm(join(root, "etc/file"));
  if (removed === "layer") await rm(root, { recursive: true });
  const outcome = await exportImage(task, join(out, file)).then(
    () => "exported",
    (error: unknown) => (error instanceof Error ? error.message.replace(out, "OUT") : ""),
  );
  unsubscribe("sandbox-mcp:step", look);
  const before = BEFORE.map((entry) => entry.split(":", 1)[0]);
  expect(seen.filter((name) => !before.includes(name))).toEqual([]);
  const kinds = (await readdir(out, { withFileTypes: true })).map(
    (entry) => `${entry.name}: ${KINDS.find((kind) => entry[kind]())}`,
  );
  const others = ["mine.tar.part", "linked.tar.part"].map((name) =>
    readFile(join(out, name), "utf8").catch(() => "gone"),
  );
  expect(await Promise.all(others)).toEqual([OTHER, OTHER]);
  const isWritten = (await stat(join(out, "linked.tar"))).size > "of before".length;
  return { outcome, isWritten, added: kinds.filter((kind) => !BEFORE.includes(kind)) };
}

const KINDS = ["isFile", "isDirectory", "isSymbolicLink", "isCharacterDevice"] as const;
const BEFORE: readonly string[] = [
  "device: isCharacterDevice",
  "early.tar: isSymbolicLink",
  "folder: isDirectory",
  "link.tar: isSymbolicLink",
  "linked.tar: isFile",
  "linked.tar.part: isFile",
  "mine.tar.part: isFile",
  "wrong.tar: isSymbolicLink",
];

test.skipIf(isRootless()).for([
  ["nothing", "exported", ["mine.tar: isFile"]],
  ["contents", REMOVED, []],
  ["layer", REMOVED, []],
] as const)("%s removed → %s", async ([removed, outcome, added]) => {
  expect(await exportLayer(removed)).toEqual({ outcome, isWritten: false, added });
});

test.skipIf(isRootless()).for([
  { file: "device", outcome: "OUT/device is no file" },
  { file: "folder", outcome: "OUT/folder is no file" },
  { file: "absent/mine.tar", outcome: "OUT/absent is no directory" },
  { file: "device/mine.tar", outcome: "OUT/device is no directory" },
  { file: "wrong.tar", outcome: "OUT/absent is no directory" },
  { file: "link.tar", outcome: "exported" },
])("to $file → $outcome", async ({ file, outcome }) => {
  const isWritten = outcome === "exported";
  expect(await exportLayer("nothing", file)).toEqual({ outcome, isWritten, added: [] });
});

test.skipIf(isRootless())("a link to a file that is not there yet stays a link", async () => {
  const added = ["new.tar: isFile"];
  expect(await exportLayer("nothing", "early.tar")).toEqual({
    outcome: "exported",
    isWritten: false,
    added,
  });
});

test.skipIf(isRootless())("an archive is on the disk before it has its name", async () => {
  await using handle = await open("/dev/null");
  const type: Pick<FileHandle, "sync"> = Object.getPrototypeOf(handle);
  const { sync } = type;
  const synced: unknown[] = [];
  using spy = vi.spyOn(type, "sync").mockImplementation(async function (this: FileHandle) {
    const path = readlinkSync(`/proc/self/fd/${this.fd}`);
    const isFolder = path.endsWith("/out");
    const name = join(isFolder ? path : dirname(path), "mine.tar");
    synced.push({ isFolder, isNamed: existsSync(name) });
    await sync.call(this);
  });
  await exportLayer("nothing");
  expect(spy).toHaveBeenCalledTimes(2);
  expect(synced).toEqual([
    { isFolder: false, isNamed: false },
    { isFolder: true, isNamed: true },
  ]);
});
