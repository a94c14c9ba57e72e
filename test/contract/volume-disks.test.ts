/** Volumes with disks: each has a size, and its disk is mounted while a service of the home uses it. */

import { mkdir, mkdtemp, readdir, readFile, rm, statfs, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { request } from "undici";
import { describe, expect, test } from "vitest";
import { readMounts } from "../../src/engine/host/mount-table.ts";
import { createdVolumeSchema, volumeSchema, type VolumeBody } from "../../src/wire/control.ts";
import { takeCensus } from "../support/census.ts";
import { DISKS, VOLUME_LEVELS, VOLUME_MB } from "../support/control/volume-levels.ts";
import { PERL_DIRECTORY } from "../support/perl-directory.ts";
import { startTestService, type TestService } from "../support/service.ts";

const MIB = 1024 ** 2;
/** Two looks of five seconds each, beside other work. */
const IDLE_LIMIT_MS = 30_000;

async function create(service: TestService, name: string): Promise<VolumeBody> {
  const { body } = await service.call({ method: "POST", path: "/volumes", body: { name } });
  return createdVolumeSchema.parse(body);
}

async function ask(
  service: TestService,
  { volumeID, token }: VolumeBody,
  { path, body }: { readonly path: string; readonly body?: Buffer | string },
) {
  const query = new URLSearchParams({ path });
  const reply = await request(
    `http://localhost/volumecontent/${volumeID}/file?${query.toString()}`,
    {
      dispatcher: service.dispatcher,
      method: body === undefined ? "GET" : "PUT",
      headers: { authorization: `Bearer ${token}` },
      body: body ?? null,
    },
  );
  return { status: reply.statusCode, text: await reply.body.text() };
}

function idsIn(paths: readonly string[]): string[] {
  return paths.flatMap((path) => /volume-disks\/([0-9a-f-]{36})/.exec(path)?.[1] ?? []).toSorted();
}

/** The volumes that are mounted, and those whose image has a device. */
async function findUsed(home: string): Promise<{ mounts: string[]; devices: string[] }> {
  const { mounts, loopDevices } = await takeCensus(home);
  return { mounts: idsIn(mounts), devices: idsIn(loopDevices) };
}

const UNUSED = { mounts: [], devices: [] };

async function openHome(stack: AsyncDisposableStack): Promise<string> {
  const home = await mkdtemp(join(tmpdir(), "smcp-vol-"));
  stack.defer(() => rm(home, { recursive: true, force: true }));
  return home;
}

describe.runIf(VOLUME_LEVELS.includes(DISKS))("disks of volumes", () => {
  test("a full volume answers 507 with its size, and takes files again when some are removed", async () => {
    await using service = await startTestService(DISKS.options);
    const volume = await create(service, "small");
    const full = {
      code: 507,
      message: `the volume of ${VOLUME_MB} MiB is full (remove files from the volume, or use another one)`,
    };
    const part = Buffer.alloc((VOLUME_MB / 2) * MIB, "x");
    expect(await ask(service, volume, { path: "a", body: part })).toMatchObject({ status: 201 });
    const refused = await ask(service, volume, { path: "b", body: part });
    expect({ status: refused.status, body: JSON.parse(refused.text) }).toEqual({
      status: 507,
      body: full,
    });
    // Nothing of it takes space.
    expect(await ask(service, volume, { path: "c", body: "kept" })).toMatchObject({ status: 201 });
    expect(await readdir(DISKS.drafts(service.home, volume.volumeID))).toEqual([]);
    const path = `/volumecontent/${volume.volumeID}/path?path=a`;
    const headers = { authorization: `Bearer ${volume.token}` };
    expect((await service.call({ method: "DELETE", path, headers })).status).toBe(204);
    expect(await ask(service, volume, { path: "b", body: part })).toMatchObject({ status: 201 });
    expect(await ask(service, volume, { path: "c" })).toEqual({ status: 200, text: "kept" });
  });

  test("a limit of its growth is told as a full disk of the service: the volume itself has space", async () => {
    await using service = await startTestService(DISKS.options);
    const volume = await create(service, "limited");
    expect(await ask(service, volume, { path: "a", body: "kept" })).toMatchObject({ status: 201 });
    const mount = join(service.home, "volume-disks", volume.volumeID, "disk");
    const mounted = (await readMounts()).find(({ target }) => target === mount);
    const reserve = `/sys/fs/ext4/${basename(mounted?.source ?? "")}/reserved_clusters`;
    const { blocks } = await statfs(mount);
    const own = `${Math.floor(blocks / 50)}\n`;
    // The first look at a disk lifts what an earlier service may have left; the kernel's own is larger.
    await expect.poll(() => readFile(reserve, "utf8")).toBe(own);
    await writeFile(reserve, `${blocks}`);
    const body = Buffer.alloc(MIB, "x");
    const refused = await ask(service, volume, { path: "b", body });
    expect({ status: refused.status, body: JSON.parse(refused.text) }).toEqual({
      status: 507,
      body: { code: 507, message: "no space left on the disk of the service" },
    });
    await writeFile(reserve, own);
    expect(await ask(service, volume, { path: "b", body })).toMatchObject({ status: 201 });
  });

  test("the size is told, and that of a volume stays as it was made", async () => {
    await using stack = new AsyncDisposableStack();
    const home = await openHome(stack);
    const first = await startTestService({ ...DISKS.options, home });
    const { volumeID } = await create(first, "old");
    await first[Symbol.asyncDispose]();
    const volumes = { sizeMb: 2 * VOLUME_MB, perlDirectory: PERL_DIRECTORY };
    await using service = await startTestService({ home, volumes });
    await create(service, "new");
    const { body } = await service.call({ path: "/volumes" });
    expect(body).toMatchObject([{ sizeMB: VOLUME_MB }, { sizeMB: 2 * VOLUME_MB }]);
    const told = await service.call({ path: `/volumes/${volumeID}` });
    expect(volumeSchema.strict().parse(told.body)).toMatchObject({ sizeMB: VOLUME_MB });
  });

  test("a disk is mounted at the first use, and unmounted a while after the last", async () => {
    await using service = await startTestService(DISKS.options);
    const volume = await create(service, "idle");
    const used = { mounts: [volume.volumeID], devices: [volume.volumeID] };
    expect(await findUsed(service.home)).toEqual(UNUSED);
    await ask(service, volume, { path: "a", body: "one" });
    expect(await findUsed(service.home)).toEqual(used);
    const poll = { timeout: IDLE_LIMIT_MS, interval: 100 };
    await expect.poll(() => findUsed(service.home), poll).toEqual(UNUSED);
    expect(await ask(service, volume, { path: "a" })).toEqual({ status: 200, text: "one" });
    expect(await findUsed(service.home)).toEqual(used);
  }, 60_000);

  test("two services of a home use a volume at once; the last that ends unmounts it", async () => {
    await using stack = new AsyncDisposableStack();
    const home = await openHome(stack);
    const first = await startTestService({ ...DISKS.options, home });
    const second = await startTestService({ ...DISKS.options, home });
    const volume = await create(first, "both");
    await ask(first, volume, { path: "a", body: "first" });
    await ask(second, volume, { path: "b", body: "second" });
    const used = { mounts: [volume.volumeID], devices: [volume.volumeID] };
    expect(await findUsed(home)).toEqual(used);
    expect(await ask(first, volume, { path: "b" })).toEqual({ status: 200, text: "second" });
    const ending = { isOver: false };
    const ended = Promise.resolve(first[Symbol.asyncDispose]()).finally(() => {
      ending.isOver = true;
    });
    // A volume that nobody uses for a while is unmounted.
    while (!ending.isOver) {
      expect(await ask(second, volume, { path: "a" })).toEqual({ status: 200, text: "first" });
    }
    await ended;
    expect(await findUsed(home)).toEqual(used);
    expect(await ask(second, volume, { path: "a" })).toEqual({ status: 200, text: "first" });
    await second[Symbol.asyncDispose]();
    await expect.poll(() => findUsed(home)).toEqual(UNUSED);
  });

  test("a removed volume leaves nothing, also while another service has it mounted", async () => {
    await using stack = new AsyncDisposableStack();
    const home = await openHome(stack);
    const first = stack.use(await startTestService({ ...DISKS.options, home }));
    const second = stack.use(await startTestService({ ...DISKS.options, home }));
    const volume = await create(first, "gone");
    for (const service of [first, second]) await ask(service, volume, { path: "a", body: "x" });
    const path = `/volumes/${volume.volumeID}`;
    expect((await first.call({ method: "DELETE", path })).status).toBe(204);
    expect(await readdir(join(home, "volume-disks"))).toEqual([]);
    expect((await findUsed(home)).mounts).toEqual([]);
    expect(await ask(second, volume, { path: "a" })).toMatchObject({ status: 404 });
    const poll = { timeout: IDLE_LIMIT_MS, interval: 100 };
    await expect.poll(() => findUsed(home), poll).toEqual(UNUSED);
  }, 60_000);

  test("a volume whose service died before it had a disk gets one at its first use", async () => {
    await using service = await startTestService(DISKS.options);
    const row = { volumeId: "5c1b7a52-0d5e-4a3c-9a5e-0f3e6a0b7d12", name: "unmade" };
    const known = { ...row, team: "local", createdAtMs: 1, sizeMb: VOLUME_MB };
    service.embedded.store.volumes.add({ ...known, isBeingMade: true });
    const { body } = await service.call({ path: `/volumes/${row.volumeId}` });
    const volume = volumeSchema.strict().parse(body);
    expect(await ask(service, volume, { path: "a", body: "x" })).toMatchObject({ status: 201 });
    expect(await ask(service, volume, { path: "a" })).toEqual({ status: 200, text: "x" });
  });

  test("a volume whose disk was lost is refused, not made anew", async () => {
    await using service = await startTestService(DISKS.options);
    const volume = await create(service, "lost");
    const disks = join(service.home, "volume-disks");
    const [name = ""] = await readdir(disks);
    await rm(join(disks, name), { recursive: true });
    expect(await ask(service, volume, { path: "a", body: "x" })).toMatchObject({
      status: 503,
      text: expect.stringContaining("the disk of volume lost is missing"),
    });
    expect(await readdir(disks)).toEqual([]);
    const path = `/volumes/${volume.volumeID}`;
    expect((await service.call({ method: "DELETE", path })).status).toBe(204);
  });

  test("a volume that an older version made goes on as a folder, without a size", async () => {
    await using service = await startTestService(DISKS.options);
    const row = { volumeId: "5c1b7a52-0d5e-4a3c-9a5e-0f3e6a0b7d11", name: "older" };
    service.embedded.store.volumes.add({ ...row, team: "local", createdAtMs: 1 });
    await mkdir(join(service.home, "volumes", row.volumeId));
    const { body } = await service.call({ path: `/volumes/${row.volumeId}` });
    const volume = volumeSchema.strict().parse(body);
    expect(volume.sizeMB).toBeUndefined();
    const large = Buffer.alloc(2 * VOLUME_MB * MIB, "x");
    expect(await ask(service, volume, { path: "a", body: large })).toMatchObject({ status: 201 });
    expect(await findUsed(service.home)).toEqual(UNUSED);
    expect(await readdir(join(service.home, "volumes", row.volumeId))).toEqual(["a"]);
  });
});
