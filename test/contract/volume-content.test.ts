/** The content of volumes over the wire: by the token of a volume, and never outside of it. */

import { createHook } from "node:async_hooks";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, readFile, readdir, rm, stat, symlink, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { request } from "undici";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { CONTENT_ROUTES } from "../../src/control/volume-content-routes.ts";
import { volumeSchema, type VolumeBody } from "../../src/wire/control.ts";
import { volumeEntrySchema } from "../../src/wire/volume-content.ts";
import { VOLUME_LEVELS, volumeDirectory } from "../support/control/volume-levels.ts";
import { endChild } from "../support/end-child.ts";
import { startTestService, type TestService } from "../support/service.ts";

/** Ignores that others want to open the file. */
const LEASE = `
import fcntl, signal, sys, time
signal.signal(signal.SIGIO, signal.SIG_IGN)
file = open(sys.argv[1], "r+")
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print("held", flush=True)
time.sleep(1000)
`;

describe.each(VOLUME_LEVELS)("volumes with $name", (level) => {
  let service: TestService;
  let volume: VolumeBody;
  let root: string;

  beforeAll(async () => {
    service = await startTestService(level.options);
    volume = await createVolume("content");
    // What a volume needs is there from its first use on.
    await ask("GET dir", { query: { path: "/" } });
    root = volumeDirectory(service, volume.volumeID);
  });
  afterAll(() => service[Symbol.asyncDispose]());

  async function createVolume(name: string): Promise<VolumeBody> {
    const { body } = await service.call({ method: "POST", path: "/volumes", body: { name } });
    return volumeSchema.parse(body);
  }

  interface Wish {
    readonly query?: Readonly<Record<string, string>>;
    readonly body?: string | Buffer;
    readonly authorization?: string;
    readonly volumeID?: string;
  }

  async function ask(operation: string, wish: Wish = {}) {
    const [method = "", name = ""] = operation.split(" ");
    const query = new URLSearchParams(wish.query);
    const { volumeID = volume.volumeID, authorization = `Bearer ${volume.token}` } = wish;
    const reply = await request(
      `http://localhost/volumecontent/${volumeID}/${name}?${query.toString()}`,
      {
        dispatcher: service.dispatcher,
        method,
        headers: authorization === "" ? {} : { authorization },
        body: wish.body ?? null,
      },
    );
    const text = await reply.body.text();
    const isJson = String(reply.headers["content-type"]).startsWith("application/json");
    const body: unknown = isJson ? JSON.parse(text) : text;
    return { status: reply.statusCode, body, headers: reply.headers };
  }

  /** Files of uploads that are under way. */
  async function listDrafts(): Promise<string[]> {
    const names = await readdir(level.drafts(service.home, volume.volumeID));
    return names.filter((name) => name.endsWith(".part"));
  }

  const put = (path: string, body: string, query = {}) =>
    ask("PUT file", { query: { path, ...query }, body });

  test("a file of which a program has a lease is in use", async () => {
    await put("/leased", "one");
    const holder = spawn("python3", ["-c", LEASE, join(root, "leased")]);
    onTestFinished(() => endChild(holder));
    await once(holder.stdout, "data");
    const refused = { status: 409, body: { message: "path is in use" } };
    expect(await ask("GET file", { query: { path: "/leased" } })).toMatchObject(refused);
    await endChild(holder);
    expect((await ask("GET file", { query: { path: "/leased" } })).body).toBe("one");
    await ask("DELETE path", { query: { path: "/leased" } });
  });

  test("a file is written, read, described, changed, listed and removed", async () => {
    const made = await put("/a.txt", "one");
    expect(made.status).toBe(201);
    expect(volumeEntrySchema.strict().parse(made.body)).toMatchObject({
      name: "a.txt",
      type: "file",
      path: "/a.txt",
      size: 3,
      mode: 0o644,
      uid: 1000,
      gid: 1000,
    });
    expect((await ask("GET file", { query: { path: "a.txt" } })).body).toBe("one");
    expect((await put("/a.txt", "")).body).toMatchObject({ size: 0 });
    expect((await ask("GET file", { query: { path: "a.txt" } })).body).toBe("");
    const changed = await ask("PATCH path", {
      query: { path: "/a.txt" },
      body: JSON.stringify({ mode: 0o600, uid: 0 }),
    });
    expect(changed).toMatchObject({ status: 200, body: { mode: 0o600, uid: 0, gid: 1000 } });
    // What replaces a file keeps its owner and mode.
    expect((await put("/a.txt", "two")).body).toMatchObject({ mode: 0o600, uid: 0, gid: 1000 });
    expect((await ask("GET dir", { query: { path: "/" } })).body).toMatchObject([
      { path: "/a.txt" },
    ]);
    expect((await ask("DELETE path", { query: { path: "/a.txt" } })).status).toBe(204);
    expect((await ask("GET path", { query: { path: "/a.txt" } })).status).toBe(404);
    expect((await ask("DELETE path", { query: { path: "/a.txt" } })).status).toBe(404);
  });

  test("folders are made with their parents where asked, and listed to a depth", async () => {
    expect((await ask("POST dir", { query: { path: "/d/e/f" } })).status).toBe(404);
    const query = { path: "/d/e/f", force: "true", mode: String(0o700), uid: "5", gid: "6" };
    expect(await ask("POST dir", { query })).toMatchObject({
      status: 201,
      body: { type: "directory", path: "/d/e/f", mode: 0o700, uid: 5, gid: 6 },
    });
    expect((await ask("POST dir", { query: { path: "/d" } })).status).toBe(409);
    expect((await put("/d/x/y.txt", "y")).status).toBe(404);
    expect((await put("/d/x/y.txt", "y", { force: "true" })).status).toBe(201);
    const paths = async (depth: string) => {
      const { body } = await ask("GET dir", { query: { path: "d", depth } });
      return volumeEntrySchema
        .array()
        .parse(body)
        .map(({ path }) => path);
    };
    expect(await paths("1")).toEqual(["/d/e", "/d/x"]);
    expect(await paths("9")).toEqual(["/d/e", "/d/e/f", "/d/x", "/d/x/y.txt"]);
    expect((await ask("GET dir", { query: { path: "/d/x/y.txt" } })).status).toBe(400);
    expect((await ask("GET file", { query: { path: "/d" } })).status).toBe(400);
    expect((await put("/d", "z")).status).toBe(400);
    expect((await ask("DELETE path", { query: { path: "/d" } })).status).toBe(204);
  });

  test("parents are made on one way, also behind a link and `..`", async () => {
    const path = `/way${"/w".repeat(255)}`;
    let calls = 0;
    const hook = createHook({
      init: (_, type) => void (calls += type.startsWith("FSREQ") ? 1 : 0),
    });
    const countCalls = async (operation: string, status: number) => {
      calls = 0;
      expect((await ask(operation, { query: { path, force: "true" } })).status).toBe(status);
      return calls;
    };
    hook.enable();
    const making = await countCalls("POST dir", 201);
    const again = await countCalls("POST dir", 201);
    const looking = await countCalls("GET path", 200);
    hook.disable();
    expect({ making, again, looking }).toEqual({
      making: expect.toSatisfy((count: number) => count < looking * 8),
      again: expect.toSatisfy((count: number) => count < looking * 4),
      looking: expect.toSatisfy((count: number) => count > 256),
    });
    await symlink("/way/w", join(root, "short"));
    expect((await put("/short/x/../y/z", "z", { force: "true" })).body).toMatchObject({
      path: "/way/w/y/z",
    });
    expect((await readdir(join(root, "way/w"))).toSorted()).toEqual(["w", "x", "y"]);
    for (const name of ["way", "short"]) await ask("DELETE path", { query: { path: name } });
  });

  test("a list of longer paths than one reply holds is refused, and they are removed", async () => {
    const make = `
    mkdir "deep" or die $!; chdir "deep";
    for (1 .. 40) { mkdir "d" x 255 or die $!; chdir "d" x 255 or die $! }
    for (1 .. 900) { open my $file, ">", $_ or die $! }`;
    execFileSync("perl", ["-e", make], { cwd: root });
    const list = async (depth: string) => ask("GET dir", { query: { path: "/deep", depth } });
    expect(await list("40")).toMatchObject({ status: 200 });
    expect(await list("41")).toMatchObject({
      status: 400,
      body: { message: "paths below the directory have more than 8388608 characters" },
    });
    expect((await ask("DELETE path", { query: { path: "/deep" } })).status).toBe(204);
  });

  test("only the token of the volume opens it", async () => {
    const other = await createVolume("other");
    const { apiKey } = service.embedded;
    const wrong = ["", "Bearer", "Bearer x", `Bearer ${other.token}`, `Basic ${volume.token}`];
    for (const authorization of [...wrong, `Bearer ${apiKey}`, `Bearer ${volume.token}0`]) {
      for (const { method, path } of CONTENT_ROUTES) {
        const name = path.split("/").at(-1) ?? "";
        const reply = await ask(`${method} ${name}`, { authorization, query: { path: "/" } });
        expect({ authorization, status: reply.status }).toEqual({ authorization, status: 401 });
      }
    }
    for (const volumeID of [
      other.volumeID,
      "x",
      "..%2F..",
      "00000000-0000-4000-8000-000000000000",
    ]) {
      expect((await ask("GET dir", { volumeID, query: { path: "/" } })).status).toBe(401);
    }
    const gone = `Bearer ${other.token}`;
    await service.call({ method: "DELETE", path: `/volumes/${other.volumeID}` });
    expect(
      (
        await ask("GET dir", {
          volumeID: other.volumeID,
          authorization: gone,
          query: { path: "/" },
        })
      ).status,
    ).toBe(404);
  });

  test("links and paths lead nowhere outside of the volume", async () => {
    await writeFile(join(service.home, "outside.txt"), "secret");
    await mkdir(join(root, "in"));
    await writeFile(join(root, "in/real.txt"), "real");
    await symlink(join(service.home, "outside.txt"), join(root, "absolute"));
    await symlink("../../outside.txt", join(root, "relative"));
    await symlink("../..", join(root, "up"));
    await symlink("/in/real.txt", join(root, "good"));
    await symlink("loop", join(root, "loop"));
    const outside = [
      "absolute",
      "relative",
      "up/outside.txt",
      "../../outside.txt",
      "/../outside.txt",
    ];
    for (const path of outside) {
      expect((await ask("GET file", { query: { path } })).body).not.toBe("secret");
      await put(path, "overwritten");
      await ask("PATCH path", { query: { path }, body: '{"mode":511}' });
      await ask("DELETE path", { query: { path } });
      expect(await readFile(join(service.home, "outside.txt"), "utf8")).toBe("secret");
    }
    expect((await ask("GET file", { query: { path: "good" } })).body).toBe("real");
    expect((await ask("GET path", { query: { path: "good" } })).body).toMatchObject({
      type: "symlink",
      target: "/in/real.txt",
    });
    expect((await put("good", "new")).body).toMatchObject({ path: "/in/real.txt" });
    expect((await ask("GET file", { query: { path: "loop" } })).status).toBe(400);
    expect((await ask("DELETE path", { query: { path: "good" } })).status).toBe(204);
    expect(await readFile(join(root, "in/real.txt"), "utf8")).toBe("new");
    expect((await stat(join(service.home, "outside.txt"))).mode & 0o777).not.toBe(0o777);
    for (const path of ["/", "", "in/..", "in/../.."]) {
      expect((await ask("DELETE path", { query: { path } })).status).toBeGreaterThanOrEqual(400);
    }
  });

  test("a path or a name that is too long is refused", async () => {
    for (const path of ["x".repeat(5_000), "x".repeat(300), "a/".repeat(300)]) {
      expect((await ask("GET dir", { query: { path } })).status).toBe(400);
    }
  });

  test.for([
    { path: "a\0b" },
    { path: "a", depth: "0" },
    { path: "a", depth: "1e3" },
    { depth: "1" },
  ])("a list of %j is refused", async (query) => {
    const plain = Object.fromEntries(Object.entries(query));
    expect([400, 404]).toContain((await ask("GET dir", { query: plain })).status);
  });

  test.for([{ uid: "65536" }, { gid: "-1" }, { mode: "4096" }, { mode: "" }, { force: "yes" }])(
    "an upload with %j is refused",
    async (query) => {
      expect((await put("/no", "x", query)).status).toBe(400);
    },
  );

  test.for([`/deep${"/d".repeat(300)}`, "/deep/a\0b/c", `/deep/${"n".repeat(5000)}/c`])(
    "a path that cannot be one makes none of its folders",
    async (path) => {
      expect((await ask("POST dir", { query: { path, force: "true" } })).status).toBe(400);
      expect((await put(path, "x", { force: "true" })).status).toBe(400);
      expect((await ask("GET path", { query: { path: "/deep" } })).status).toBe(404);
    },
  );

  test("a pipe is never waited for, and times of any age are told", async () => {
    execFileSync("sh", ["-c", `mkfifo "$1"`, "sh", join(root, "pipe")]);
    await writeFile(join(root, "old"), "");
    await utimes(join(root, "old"), -4e9, 9e11).catch(() => undefined);
    for (const name of ["file"]) {
      expect((await ask(`GET ${name}`, { query: { path: "/pipe" } })).status).toBe(400);
    }
    expect((await put("/pipe", "x")).status).toBe(400);
    expect((await ask("PATCH path", { query: { path: "/pipe" }, body: "{}" })).status).toBe(400);
    expect((await ask("GET path", { query: { path: "/pipe" } })).body).toMatchObject({
      type: "unknown",
    });
    expect((await ask("GET path", { query: { path: "/old" } })).status).toBe(200);
    await rm(join(root, "pipe"));
  });

  test("a query in another encoding is refused, so that no two names become one", async () => {
    await put("/caf\uFFFD", "kept");
    const reply = await request(
      `http://localhost/volumecontent/${volume.volumeID}/file?path=caf%E9`,
      {
        dispatcher: service.dispatcher,
        method: "PUT",
        headers: { authorization: `Bearer ${volume.token}` },
        body: "other",
      },
    );
    expect([reply.statusCode, await reply.body.json()]).toEqual([
      400,
      { code: 400, message: "query is not in UTF-8" },
    ]);
    expect((await ask("GET file", { query: { path: "/caf\uFFFD" } })).body).toBe("kept");
    await ask("DELETE path", { query: { path: "/caf\uFFFD" } });
  });

  test("names that are not UTF-8 are told with escapes, and found by them", async () => {
    const bytes = (text: string) =>
      Buffer.concat([Buffer.from(`${root}/`), Buffer.from(text, "latin1")]);
    await mkdir(bytes("raw"));
    await mkdir(bytes("raw/\u00ff\\"));
    await writeFile(bytes("raw/\u00ff\\/f\u00fe"), "inner");
    await symlink(Buffer.from("f\u00fe", "latin1"), bytes("raw/\u00ff\\/link"));
    // A name that looks like an escape is told as it is.
    await writeFile(bytes("raw/\\xaa"), "plain");
    const folder = "/raw/\\xff\\x5c";
    const inner = `${folder}/f\\xfe`;
    const { status, body } = await ask("GET dir", { query: { path: "/raw", depth: "2" } });
    expect(status).toBe(200);
    expect(
      volumeEntrySchema
        .array()
        .parse(body)
        .map(({ path, target }) => [path, target]),
    ).toEqual([
      ["/raw/\\xaa", undefined],
      [folder, undefined],
      [inner, undefined],
      [`${folder}/link`, "f\\xfe"],
    ]);
    expect((await ask("GET path", { query: { path: inner } })).body).toMatchObject({
      name: "f\\xfe",
      path: inner,
    });
    expect((await ask("GET file", { query: { path: `${folder}/link` } })).body).toBe("inner");
    expect((await ask("GET file", { query: { path: "/raw/\\xaa" } })).body).toBe("plain");
    expect((await put(inner, "new")).status).toBe(201);
    expect(await readFile(bytes("raw/\u00ff\\/f\u00fe"), "utf8")).toBe("new");
    expect((await ask("DELETE path", { query: { path: folder } })).status).toBe(204);
    expect(await readdir(join(root, "raw"))).toEqual(["\\xaa"]);
  });

  test("an upload that ends early changes nothing and leaves nothing", async () => {
    await put("/kept", "before");
    const stop = new AbortController();
    const sending = request(`http://localhost/volumecontent/${volume.volumeID}/file?path=/kept`, {
      dispatcher: service.dispatcher,
      method: "PUT",
      signal: stop.signal,
      headers: { authorization: `Bearer ${volume.token}` },
      body: Readable.from(
        (async function* () {
          yield Buffer.from("half");
          await expect.poll(listDrafts).toHaveLength(1);
          stop.abort();
          yield Buffer.from("rest");
        })(),
      ),
    });
    await expect(sending).rejects.toThrow("abort");
    await expect.poll(listDrafts).toEqual([]);
    expect((await ask("GET file", { query: { path: "/kept" } })).body).toBe("before");
  });

  test("downloads cannot act as a page of the service", async () => {
    await put("/page.html", "<script>1</script>");
    expect((await ask("GET file", { query: { path: "/page.html" } })).headers).toMatchObject({
      "content-type": "application/octet-stream",
      "x-content-type-options": "nosniff",
      "content-security-policy": "sandbox",
    });
  });
});
