/** A service on a small disk, sandboxes that write without rest, and what was acknowledged. */

import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Sandbox } from "e2b";
import { createRandom, type Random } from "../random.ts";
import { make, openFaultHome, type FaultHome } from "./fault-home.ts";
import { openSmallDisk, type SmallDisk } from "./small-disk.ts";
import { askVolume, volumeSchema, type VolumeAccess } from "./volume-access.ts";

const MEBIBYTE = 1024 ** 2;
/** Nothing new begins with less than 1 GiB: so much is left to fill before. */
const LEFT_MB = { least: 1100, more: 200 } as const;
const FLAGS = ["--pool", "0", "--disk-mb", "1024", "--memory-mb", "256"];
const SHARED = { name: "shared", path: "/shared" } as const;
const SAID = "/dev/shm/acknowledged";
const UPLOAD_PAUSE_MS = 50;
const SHOT_PAUSE_MS = 500;
const VOLUME_FILES = 8;

interface Writer {
  readonly id: string;
  /** What it acknowledged, kept when its memory goes. */
  said: string;
}

/** A snapshot that was answered, and what it must hold. */
interface Shot {
  readonly name: string;
  readonly said: string;
}

export interface FillStage extends AsyncDisposable {
  readonly home: FaultHome;
  readonly disk: SmallDisk;
  readonly writers: readonly Writer[];
  /** One that does nothing but take uploads. */
  readonly idle: string;
  readonly shots: readonly Shot[];
  /** Uploads and takes snapshots until the work is done. */
  fill(until: () => Promise<void>): Promise<void>;
  countAcknowledged(): Promise<readonly number[]>;
  endWriting(): Promise<void>;
  /** Every page is read from the disk again, of sandboxes and of the disk that they are on. */
  reopen(): Promise<void>;
  /** Ends the writers once all that they wrote was read. */
  findLost(): Promise<readonly string[]>;
}

/** Opens it with writers at work. */
export async function openFillStage(
  seed: number,
  amount: number,
  flags: readonly string[] = [],
): Promise<FillStage> {
  process.stdout.write(`FILL_SEED=${seed}\n`);
  const random = createRandom(seed);
  await using stack = new AsyncDisposableStack();
  const disk = await openSmallDisk();
  const home = stack.use(await openFaultHome([...FLAGS, ...flags], async () => disk));
  await home.start();
  const writers: Writer[] = [];
  const made = await home.call("POST", "/volumes", { name: SHARED.name });
  const volume = volumeSchema.parse(made?.body);
  for (let index = 0; index < amount; index += 1) {
    // Half of them share a volume.
    const volumeMounts = index % 2 === 0 ? [SHARED] : [];
    writers.push({ id: await make(home, { volumeMounts }), said: "" });
  }
  const idle = await make(home);
  await disk.fill((LEFT_MB.least + random.below(LEFT_MB.more)) * MEBIBYTE);
  for (const [index, { id }] of writers.entries()) await startWriter(home, id, `${seed}-${index}`);
  const uploads = new Map<string, string>();
  const kept = new Map<string, string>();
  const shots: Shot[] = [];
  const owned = stack.move();
  return {
    home,
    disk,
    writers,
    idle,
    shots,
    async fill(until) {
      const over = new AbortController();
      const loops = [
        upload({ home, random, writers, uploads }, over.signal),
        fillVolume({ home, random, volume, kept }, over.signal),
        takeShots({ home, random, writers, shots }, over.signal),
      ];
      try {
        await until();
      } finally {
        over.abort();
        await Promise.all(loops);
      }
    },
    countAcknowledged: async () =>
      Promise.all(writers.map(async (writer) => (await readSaid(home, writer)).length)),
    async endWriting() {
      for (const writer of writers) {
        const sandbox = await Sandbox.connect(writer.id, home.client());
        await sandbox.commands.run("pkill -9 python3; true", { user: "root" });
        writer.said = (await readSaid(home, writer)).join("\n");
      }
    },
    async reopen() {
      for (const { id } of writers) {
        await home.call("POST", `/sandboxes/${id}/pause`, { memory: false });
      }
      await home.stop("SIGTERM");
      await disk.remount();
      await home.start();
      for (const { id } of writers) {
        await home.call("POST", `/sandboxes/${id}/connect`, { timeout: 3600 });
      }
    },
    async findLost() {
      const lost: string[] = [];
      for (const { id, said } of writers) lost.push(...(await readBack(home, id, said)));
      for (const [path, hash] of uploads) lost.push(...(await checkUpload(home, path, hash)));
      for (const [path, hash] of kept) {
        const { status, text } = await askVolume(home, volume, { path });
        if (hashOf(text) !== hash) lost.push(`volume ${path}: ${status}`);
      }
      // They may have written until little was left again; nothing begins then.
      for (const { id } of writers) await home.call("DELETE", `/sandboxes/${id}`);
      for (const { name, said } of shots) {
        const id = await make(home, { templateID: name });
        // A snapshot has no volume.
        const own = said.split("\n").filter((line) => !line.includes(` ${SHARED.path}/`));
        const missing = await readBack(home, id, own.join("\n"));
        lost.push(...missing.map((line) => `${name}: ${line}`));
        await home.call("DELETE", `/sandboxes/${id}`);
      }
      return lost;
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function startWriter(home: FaultHome, id: string, seed: string): Promise<void> {
  const sandbox = await Sandbox.connect(id, home.client());
  const program = await readFile(join(import.meta.dirname, "disk-writer.py"), "utf8");
  await sandbox.files.write("/opt/writer.py", program, { user: "root" });
  const folders = `/home/user /var $(ls -d ${SHARED.path})`;
  const command = `setsid python3 /opt/writer.py ${seed} ${folders} > /dev/shm/errors 2>&1 &`;
  await sandbox.commands.run(command, { user: "root" });
}

async function readSaid(home: FaultHome, writer: Writer): Promise<readonly string[]> {
  const answer = await home.enter(writer.id, `/files?path=${SAID}`);
  // A paused one says nothing, and acknowledges nothing more.
  if (answer?.status === 200) writer.said = String(answer.body);
  return writer.said.split("\n").filter((line) => line !== "");
}

interface Load {
  readonly home: FaultHome;
  readonly random: Random;
  readonly writers: readonly Writer[];
}

interface VolumeLoad extends Pick<Load, "home" | "random"> {
  readonly volume: VolumeAccess;
  /** Paths of what was acknowledged, with its hash. */
  readonly kept: Map<string, string>;
}

async function upload(
  { home, random, writers, uploads }: Load & { readonly uploads: Map<string, string> },
  over: AbortSignal,
): Promise<void> {
  for (let number = 0; !over.aborted; number += 1) {
    const { id } = random.pick(writers);
    const text = `${number} `.repeat((random.below(4) + 1) * 100_000);
    const path = `/files?path=/home/user/upload-${number}`;
    const answer = await home.enter(id, path, text);
    if (answer?.status === 200) uploads.set(`${id} ${path}`, hashOf(text));
    await delay(UPLOAD_PAUSE_MS);
  }
}

/** By the token of the volume, beside the sandboxes that have it. */
async function fillVolume(
  { home, random, volume, kept }: VolumeLoad,
  over: AbortSignal,
): Promise<void> {
  for (let number = 0; !over.aborted; number += 1) {
    const body = `${number} `.repeat((random.below(4) + 1) * 100_000);
    // Each replaces an older one: what is kept must leave room for the writers.
    const path = `upload-${number % VOLUME_FILES}`;
    const { status } = await askVolume(home, volume, { path, body });
    if (status === 201) kept.set(path, hashOf(body));
    await delay(UPLOAD_PAUSE_MS);
  }
}

async function takeShots(
  { home, random, writers, shots }: Load & { readonly shots: Shot[] },
  over: AbortSignal,
): Promise<void> {
  for (let number = 0; !over.aborted; number += 1) {
    const writer = random.pick(writers);
    const before = await readSaid(home, writer);
    const name = `shot-${number}`;
    const answer = await home.call("POST", `/sandboxes/${writer.id}/snapshots`, { name });
    if (answer?.status === 201) {
      // What was removed meanwhile may be missing.
      const removed = (await readSaid(home, writer)).filter((line) => line.startsWith("-"));
      shots.push({ name, said: [...before, ...removed].join("\n") });
    }
    await delay(SHOT_PAUSE_MS);
  }
}

async function checkUpload(home: FaultHome, key: string, hash: string): Promise<string[]> {
  const [id = "", path = ""] = key.split(" ");
  const answer = await home.enter(id, path);
  return hashOf(String(answer?.body)) === hash ? [] : [`${key}: ${answer?.status}`];
}

async function readBack(home: FaultHome, id: string, said: string): Promise<string[]> {
  const sandbox = await Sandbox.connect(id, home.client());
  const program = await readFile(join(import.meta.dirname, "disk-reader.py"), "utf8");
  await sandbox.files.write("/dev/shm/reader.py", program, { user: "root" });
  await sandbox.files.write("/dev/shm/said", said, { user: "root" });
  const command = "python3 /dev/shm/reader.py < /dev/shm/said";
  const { stdout } = await sandbox.commands.run(command, { user: "root", timeoutMs: 120_000 });
  const lines = stdout.trim().split("\n");
  if (!(lines.pop() ?? "").startsWith("files: ")) lines.push("not all was read");
  return lines.map((line) => `${id} ${line}`);
}

function hashOf(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
