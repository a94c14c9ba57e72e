/** What every store does: records come back as they went in, logs stay within their bounds. */

import { expect, test } from "vitest";
import type { LogFilter, LogLine, LogPlace } from "../../src/store/log-records.ts";
import type { BuildRecord, SandboxRecord, Store, TemplateRecord } from "../../src/store/store.ts";

const LIMITS = { memoryMb: 512, cpus: 2, diskMb: 2048, pids: 512 };

export const SANDBOX: SandboxRecord = {
  sandboxId: "ia",
  owner: "serve",
  team: "local",
  templateId: "t1",
  buildId: "b1",
  alias: "base",
  state: "running",
  isSecured: true,
  isPrivate: false,
  pausesAtTimeout: false,
  resumesOnTraffic: false,
  timeoutSeconds: 300,
  keepsMemory: true,
  hasMemory: true,
  isDaemonUnresponsive: false,
  pauseReason: null,
  leftMs: 0,
  bootId: "",
  volumeMounts: [],
  mcpServers: [],
  startedAtMs: 1000,
  endAtMs: 2000,
  limits: LIMITS,
  allowsInternet: null,
  network: { denyOut: ["0.0.0.0/0"] },
  metadata: { user: "ä" },
  sealedEnvironment: null,
  memory: null,
};

const TEMPLATE: TemplateRecord = {
  templateId: "t1",
  kind: "snapshot",
  team: "local",
  name: "local/web",
  isPublic: false,
  createdAtMs: 1000,
  updatedAtMs: 1000,
  lastSpawnedAtMs: null,
  spawnCount: 0,
};

function build(buildId: string, createdAtMs: number): BuildRecord {
  return {
    buildId,
    templateId: "t1",
    owner: "serve",
    status: "ready",
    sourceSandboxId: "ia",
    createdAtMs,
    updatedAtMs: createdAtMs,
    finishedAtMs: createdAtMs,
    limits: LIMITS,
    layers: [{ root: "base/root" }],
    defaultUser: "user",
    defaultWorkdir: "/home/user",
  };
}

const ANY = {
  startMs: 0,
  endMs: Number.MAX_SAFE_INTEGER,
  direction: "forward",
  level: "debug",
  search: "",
} as const;

/** All lines of a filter, page by page. */
function readLogs(store: Store, filter: LogFilter): LogLine[] {
  const found: LogLine[] = [];
  let behind: LogPlace | undefined;
  do {
    const limit = filter.limit - found.length;
    const { lines, place } = store.logs.read({ ...filter, limit }, behind);
    found.push(...lines);
    behind = place;
  } while (behind !== undefined && found.length < filter.limit);
  return found;
}

/** Adds the suite to the block around it; `open` makes an empty store. */
export function describeStore(open: () => Store): void {
  describeRecords(open);
  describeLogs(open);
}

function describeRecords(open: () => Store): void {
  test("a sandbox comes back as it was put, until it is removed", () => {
    using store = open();
    store.sandboxes.put({ ...SANDBOX, state: "starting" });
    store.sandboxes.put(SANDBOX);
    expect(store.sandboxes.ofOwner("serve")).toEqual([SANDBOX]);
    expect(store.sandboxes.ofOwner("other")).toEqual([]);
    expect(store.sandboxes.owners()).toEqual(["serve"]);
    expect(store.sandboxes.countOfTemplate("t1")).toBe(1);
    store.sandboxes.remove("ia");
    expect(store.sandboxes.get("ia")).toBeUndefined();
  });

  test("a tag names the newest build that it was given, and only one that is ready", () => {
    using store = open();
    store.templates.put(TEMPLATE);
    store.builds.put(build("b1", 1000));
    store.builds.put(build("b2", 2000));
    store.builds.put({ ...build("b3", 3000), status: "building" });
    store.builds.tag({ templateId: "t1", tag: "default", buildId: "b1", createdAtMs: 5 });
    store.builds.tag({ templateId: "t1", tag: "default", buildId: "b2", createdAtMs: 5 });
    store.builds.tag({ templateId: "t1", tag: "next", buildId: "b3", createdAtMs: 5 });
    expect(store.builds.tagged("t1", "default")?.buildId).toBe("b2");
    expect(store.builds.tagged("t1", "next")).toBeUndefined();
    expect(store.builds.ofTemplate("t1").map(({ buildId }) => buildId)).toEqual(["b3", "b2", "b1"]);
    expect(store.builds.unfinished().map(({ buildId }) => buildId)).toEqual(["b3"]);
  });

  test("rows that come to another template, or owner, are found by it alone", () => {
    using store = open();
    store.sandboxes.put({ ...SANDBOX, templateId: "t0", owner: "first" });
    store.sandboxes.put(SANDBOX);
    expect(["t0", "t1"].map((id) => store.sandboxes.countOfTemplate(id))).toEqual([0, 1]);
    expect(store.sandboxes.owners()).toEqual(["serve"]);
    const unfinished = { ...build("b1", 1000), status: "building" } as const;
    store.builds.put({ ...unfinished, templateId: "t0", owner: "first" });
    store.builds.put(unfinished);
    expect(["t0", "t1"].map((id) => store.builds.ofTemplate(id).length)).toEqual([0, 1]);
    expect(store.builds.unfinished().map(({ owner }) => owner)).toEqual(["serve"]);
  });

  test("a template goes with its builds and tags", () => {
    using store = open();
    store.templates.put(TEMPLATE);
    store.builds.put(build("b1", 1000));
    store.builds.tag({ templateId: "t1", tag: "default", buildId: "b1", createdAtMs: 5 });
    expect(store.templates.getByName("local/web")).toEqual(TEMPLATE);
    store.templates.remove("t1");
    expect(store.templates.all()).toEqual([]);
    expect(store.builds.all()).toEqual([]);
    expect(store.builds.tags("t1")).toEqual([]);
  });

  test("a transaction that throws leaves nothing", () => {
    using store = open();
    expect(() =>
      store.transaction(() => {
        store.sandboxes.put(SANDBOX);
        throw new Error("no");
      }),
    ).toThrow("no");
    expect(store.sandboxes.get("ia")).toBeUndefined();
  });

  test("a key is found by its hash until it is removed", () => {
    using store = open();
    const key = {
      keyId: "k1",
      name: "ci",
      team: "local",
      hash: "ff",
      mask: "e2b_ab…cdef",
      createdAtMs: 1,
    };
    store.keys.add(key);
    expect(store.keys.getByHash("ff")).toEqual(key);
    expect(() => store.keys.add(key)).toThrow(expect.objectContaining({ code: "already_exists" }));
    expect([store.keys.remove("k1"), store.keys.remove("k1")]).toEqual([true, false]);
    expect(store.keys.getByHash("ff")).toBeUndefined();
  });
}

function describeLogs(open: () => Store): void {
  test("log lines are chosen by time, level and message, in either order", () => {
    using store = open();
    const lines = [
      { level: "debug", message: "one" },
      { level: "error", message: "Two" },
      { level: "odd", message: "three" },
      { level: "warn" },
    ].map((line, index) => ({ atMs: index, line: JSON.stringify(line) }));
    store.logs.append({ sandboxId: "ia", team: "local" }, lines);
    const read = (filter: Partial<LogFilter>) =>
      readLogs(store, { ...ANY, sandboxId: "ia", limit: 9, ...filter }).map(({ atMs }) => atMs);
    expect(read({ direction: "backward" })).toEqual([3, 2, 1, 0]);
    expect(read({ direction: "backward", limit: 2, endMs: 2 })).toEqual([2, 1]);
    expect(read({ level: "info" })).toEqual([1, 2, 3]);
    expect(read({ level: "warn" })).toEqual([1, 3]);
    expect(read({ level: "error" })).toEqual([1]);
    expect(read({ search: "T" })).toEqual([1]);
    expect(read({ search: "t" })).toEqual([2]);
  });

  test("log lines come oldest first, from a moment on, and are forgotten by age", () => {
    using store = open();
    store.logs.append({ sandboxId: "ia", team: "local" }, [
      { atMs: 20, line: "second" },
      { atMs: 10, line: "first" },
      { atMs: 20, line: "third" },
    ]);
    store.logs.append({ sandboxId: "ib", team: "local" }, [{ atMs: 5, line: "other" }]);
    const read = (startMs: number, limit: number) =>
      readLogs(store, { ...ANY, sandboxId: "ia", startMs, limit }).map(({ line }) => line);
    expect(read(0, 10)).toEqual(["first", "second", "third"]);
    expect(read(20, 1)).toEqual(["second"]);
    expect(read(0, 0)).toEqual([]);
    expect(store.logs.forgetBefore(10, 100)).toBe(false);
    const has = (sandboxId: string, team: string) => store.logs.has({ sandboxId, team });
    expect([has("ia", "local"), has("ia", "other"), has("ib", "local")]).toEqual([
      true,
      false,
      false,
    ]);
    expect(readLogs(store, { ...ANY, sandboxId: "ib", limit: 9 })).toEqual([]);
  });

  test("old logs are forgotten one after the other, so many lines at a time", () => {
    using store = open();
    const lines = [1, 2, 3].map((atMs) => ({ atMs, line: "x" }));
    const ids = ["ia", "ib", "ic", "young"];
    for (const sandboxId of ids.slice(0, 3)) {
      store.logs.append({ sandboxId, team: "local" }, lines);
    }
    store.logs.append({ sandboxId: "young", team: "local" }, [{ atMs: 100, line: "x" }]);
    const left = () =>
      ids.map((sandboxId) => readLogs(store, { ...ANY, sandboxId, limit: 9 }).length);
    const known = () => ids.filter((sandboxId) => store.logs.has({ sandboxId, team: "local" }));
    expect([store.logs.forgetBefore(50, 4), left(), known()]).toEqual([
      true,
      [0, 2, 3, 1],
      ["ib", "ic", "young"],
    ]);
    expect([store.logs.forgetBefore(50, 4), left(), known()]).toEqual([
      true,
      [0, 0, 1, 1],
      ["ic", "young"],
    ]);
    expect([store.logs.forgetBefore(50, 4), left(), known()]).toEqual([
      false,
      [0, 0, 0, 1],
      ["young"],
    ]);
  });

  test("of a team the logs that were written to last are kept, up to so many bytes", () => {
    using store = open();
    const write = (sandboxId: string, team: string, atMs: number) =>
      store.logs.append({ sandboxId, team }, [
        { atMs: atMs - 1, line: "12345" },
        { atMs, line: "12345" },
      ]);
    write("new", "a", 30);
    write("oldest", "a", 10);
    write("old", "a", 20);
    write("other", "b", 5);
    expect(store.logs.listBeyond(30)).toEqual([]);
    expect(store.logs.listBeyond(29)).toEqual(["oldest"]);
    expect(store.logs.listBeyond(10).toSorted()).toEqual(["old", "oldest"]);
    const left = () => readLogs(store, { ...ANY, sandboxId: "oldest", limit: 9 }).length;
    expect([store.logs.empty("oldest", 1), left()]).toEqual([true, 1]);
    expect([store.logs.empty("oldest", 1), left()]).toEqual([true, 0]);
    expect(store.logs.empty("oldest", 1)).toBe(false);
    expect(store.logs.has({ sandboxId: "oldest", team: "a" })).toBe(true);
    expect(store.logs.listBeyond(10)).toEqual(["old"]);
  });

  test("a sandbox that writes while its old log is forgotten has its whole share again", () => {
    using store = open();
    const owner = { sandboxId: "ia", team: "local" };
    const line = "x".repeat(10_000);
    for (let atMs = 1; atMs <= 10; atMs += 1) {
      store.logs.append(
        owner,
        Array.from({ length: 100 }, () => ({ atMs, line })),
      );
    }
    expect(store.logs.forgetBefore(100, 1_000)).toBe(true);
    store.logs.append(owner, [{ atMs: 200, line }]);
    expect(store.logs.forgetBefore(100, 1_000)).toBe(false);
    store.logs.append(
      owner,
      Array.from({ length: 100 }, () => ({ atMs: 201, line })),
    );
    expect(readLogs(store, { ...ANY, sandboxId: "ia", limit: 1_000 })).toHaveLength(101);
  });

  test("the log of one sandbox stays within 10 MiB, its newest lines kept", () => {
    using store = open();
    const line = "x".repeat(10_000);
    for (let batch = 0; batch < 15; batch += 1) {
      const lines = Array.from({ length: 100 }, (_, index) => ({
        atMs: batch * 100 + index,
        line,
      }));
      store.logs.append({ sandboxId: "ia", team: "local" }, lines, {
        toMark: (atMs) => `gone until ${atMs}`,
      });
    }
    const kept = readLogs(store, { ...ANY, sandboxId: "ia", limit: 10_000 });
    expect(kept.length * line.length).toBeLessThanOrEqual(10 * 1024 * 1024);
    expect(kept.filter((record) => record.line !== line)).toEqual([
      { atMs: 999, line: "gone until 999" },
    ]);
    expect(kept[0]?.atMs).toBe(999);
    expect(kept.at(-1)?.atMs).toBe(1499);
  });

  test("what a full log drops is what was written first, also when the clock was set back", () => {
    using store = open();
    const owner = { sandboxId: "ia", team: "local" };
    const append = (name: string, atMs: number, count: number) => {
      const line = name.repeat(10_000);
      const lines = Array.from({ length: count }, () => ({ atMs, line }));
      store.logs.append(owner, lines, { toMark: () => "gone" });
    };
    append("a", 5_000, 1_000);
    for (let batch = 0; batch < 15; batch += 1) append("b", 1_000 + batch, 100);
    append("c", 1_020, 10);
    const kept = readLogs(store, { ...ANY, sandboxId: "ia", limit: 10_000 });
    const count = (begin: string) => kept.filter(({ line }) => line.startsWith(begin)).length;
    expect([count("a"), count("c"), count("gone")]).toEqual([0, 10, 1]);
    expect(count("b")).toBeGreaterThan(0);
  });
}
