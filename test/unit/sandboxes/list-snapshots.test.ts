/** The list of snapshots: its order and its pages are those of a plain walk over all records. */

import { describe, expect, test } from "vitest";
import { listSnapshots, type SnapshotQuery } from "../../../src/sandboxes/snapshots/snapshots.ts";
import { openStore } from "../../../src/store/sqlite.ts";
import type { BuildRecord, Store, TemplateRecord } from "../../../src/store/store.ts";
import { createRandom } from "../../support/random.ts";

const TEAM = "blue";

function template(index: number, more: Partial<TemplateRecord> = {}): TemplateRecord {
  return {
    templateId: `t${index}`,
    kind: "snapshot",
    team: TEAM,
    name: index % 2 === 0 ? null : `${TEAM}/named${index}`,
    isPublic: false,
    createdAtMs: 1,
    updatedAtMs: 1,
    lastSpawnedAtMs: null,
    spawnCount: 0,
    ...more,
  };
}

function build(buildId: string, templateId: string, more: Partial<BuildRecord>): BuildRecord {
  return {
    buildId,
    templateId,
    owner: "serve",
    status: "ready",
    sourceSandboxId: null,
    createdAtMs: 1,
    updatedAtMs: 1,
    finishedAtMs: 1,
    limits: { memoryMb: 512, cpus: 1, diskMb: 512, pids: 32 },
    layers: [],
    defaultUser: "user",
    defaultWorkdir: "/home/user",
    ...more,
  };
}

/** Every page, each as the identifiers that it has. */
function pagesOf(store: Store, limit: number, query: Partial<SnapshotQuery> = {}): string[][] {
  const pages: string[][] = [];
  let token: string | undefined;
  do {
    const page = listSnapshots(contextOf(store), {
      sandboxId: undefined,
      name: undefined,
      ...query,
      page: { order: "desc", limit, token },
    });
    pages.push(page.items.map(({ snapshotId }) => snapshotId));
    token = page.nextToken;
  } while (token !== undefined && pages.length < 1_000);
  return pages;
}

function contextOf(store: Store): Parameters<typeof listSnapshots>[0] {
  // What a list reads of its context.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  return { store, team: TEAM } as Parameters<typeof listSnapshots>[0];
}

interface World extends Disposable {
  readonly store: Store;
  /** What a walk over all records finds. */
  expected(sandboxId?: string): string[];
}

/** Few times and many builds, so that ties and replaced builds are common. */
function makeWorld(seed: number): World {
  const store = openStore({ path: ":memory:" });
  const random = createRandom(seed);
  const below = (limit: number) => random.below(limit);
  const templates: TemplateRecord[] = [];
  for (let index = 0; index < 60; index += 1) {
    const kind = below(8) === 0 ? "template" : "snapshot";
    const made = template(index, { kind, ...(below(8) === 0 && { team: "green" }) });
    templates.push(made);
    store.templates.put(made);
    for (let count = below(4); count > 0; count -= 1) {
      const buildId = `b${below(1e9)}`;
      store.builds.put(
        build(buildId, made.templateId, {
          status: below(5) === 0 ? "building" : "ready",
          createdAtMs: 1_000 + below(6),
          sourceSandboxId: ["one", "two", null][below(3)] ?? null,
        }),
      );
      for (const tag of ["default", "a", "z"].slice(0, below(4))) {
        store.builds.tag({ templateId: made.templateId, tag, buildId, createdAtMs: 1 });
      }
    }
  }
  const found = templates.flatMap((each) => {
    const { templateId } = each;
    const tags = store.builds.tags(templateId);
    const builds = store.builds.ofTemplate(templateId);
    const newest = builds.find(
      ({ status, buildId }) => status === "ready" && tags.some((tag) => tag.buildId === buildId),
    );
    const tag = tags.find(({ buildId }) => buildId === newest?.buildId);
    if (each.kind !== "snapshot" || each.team !== TEAM || newest === undefined) return [];
    const sources = builds.map(({ sourceSandboxId }) => sourceSandboxId);
    const id = `${each.name ?? templateId}:${tag?.tag}`;
    return [{ id, templateId, atMs: newest.createdAtMs, sources }];
  });
  const sorted = found.toSorted(
    (left, right) => right.atMs - left.atMs || (left.templateId < right.templateId ? -1 : 1),
  );
  return {
    store,
    expected: (sandboxId) =>
      sorted
        .filter(({ sources }) => sandboxId === undefined || sources.includes(sandboxId))
        .map(({ id }) => id),
    [Symbol.dispose]: () => store[Symbol.dispose](),
  };
}

describe("pages", () => {
  test.for([1, 2, 3, 4, 5])("are those of a walk over all records, seed %i", (seed) => {
    using world = makeWorld(seed);
    const all = world.expected();
    expect(all.length).toBeGreaterThan(10);
    for (const limit of [1, 7, 100]) {
      const pages = pagesOf(world.store, limit);
      expect(pages.flat()).toEqual(all);
      expect(pages.slice(0, -1).every((page) => page.length === limit)).toBe(true);
      const ofSandbox = pagesOf(world.store, limit, { sandboxId: "one" });
      expect(ofSandbox.flat()).toEqual(world.expected("one"));
    }
  });

  test("of a name and of an identifier have what they name", () => {
    using world = makeWorld(6);
    for (const id of world.expected()) {
      const name = id.replace(/:[a-z]+$/, "");
      expect(pagesOf(world.store, 7, { name })).toEqual([[id]]);
      expect(pagesOf(world.store, 7, { name: id })).toEqual([[id]]);
    }
  });
});

test("what another process removes while a page is read does not end the list", () => {
  using world = makeWorld(7);
  const { store } = world;
  const builds = { ...store.builds, tags: () => [] };
  expect(pagesOf({ ...store, builds }, 7).flat()).toEqual(world.expected());
});

test("a page reads no record beyond it", () => {
  using store = openStore({ path: ":memory:" });
  for (let index = 0; index < 30; index += 1) {
    const made = template(index);
    const { templateId } = made;
    const buildId = `b${index}`;
    const isFar = index < 20;
    // Of a later version: this one reads no such record.
    store.templates.put(isFar ? { ...made, spawnCount: Number.NaN } : made);
    store.builds.put(build(buildId, templateId, { createdAtMs: index }));
    store.builds.tag({ templateId, tag: "default", buildId, createdAtMs: 1 });
  }
  expect(() => store.templates.all()).toThrow("cannot be read");
  const [first] = pagesOf(store, 5);
  expect(first?.slice(0, 2)).toEqual([`${TEAM}/named29:default`, "t28:default"]);
});

test("a list of a snapshot with many tags takes no longer than ten reads of its builds", () => {
  using store = openStore({ path: ":memory:" });
  store.templates.put(template(0));
  store.transaction(() => {
    for (let index = 0; index < 2_000; index += 1) {
      const buildId = `b${index}`;
      const tag = `v${String(index).padStart(4, "0")}`;
      store.builds.put(build(buildId, "t0", { createdAtMs: index }));
      store.builds.tag({ templateId: "t0", tag, buildId, createdAtMs: 1 });
    }
  });
  const readMs = timeOf(() => store.builds.ofTemplate("t0"));
  const list = () => expect(pagesOf(store, 5)).toEqual([["t0:v1999"]]);
  // The shortest of some: the machine may hold one up.
  const listMs = Math.min(...Array.from({ length: 5 }, () => timeOf(list)));
  expect(listMs).toBeLessThan(10 * readMs);
});

function timeOf(work: () => unknown): number {
  const beganMs = performance.now();
  work();
  return performance.now() - beganMs;
}
