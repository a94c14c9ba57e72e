/**
 * E57: files that all sandboxes have carry no signal from one to another: no lock, no lease, no
 * watch and no time of access. Every way is tried on every such file, from one sandbox to its
 * neighbour; on a volume, which is shared on purpose, the same ways work.
 */

import { Sandbox, Volume, type CommandHandle, type SandboxOpts } from "e2b";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openOrdinaryUser } from "../../support/ordinary-user.ts";
import { tellCells } from "../../support/run/cells.ts";
import { attackPlaces, hasOwnKernel } from "../../support/runtimes.ts";
import { startServe } from "../../support/serve.ts";
import { isKnown, listPaths } from "./paths.ts";

/** Says which files it can lock and watch, holds the locks, and tells what it sees when it is asked. */
const PROGRAM = `
import ctypes, fcntl, json, os, stat, struct, sys
mode, paths = sys.argv[1], json.loads(sys.argv[2])
libc = ctypes.CDLL(None, use_errno=True)
def query(fd):
    lock = struct.pack("hhqqi", fcntl.F_WRLCK, 0, 0, 0, 0)
    return struct.unpack("hhqqi", fcntl.fcntl(fd, fcntl.F_GETLK, lock))[0] == fcntl.F_UNLCK
def lock(path, found):
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    keep.append(fd)
    entry = os.fstat(fd)
    # A file that covers several others is locked once: its own second lock is no signal.
    if (entry.st_dev, entry.st_ino) in files: return
    files.add((entry.st_dev, entry.st_ino))
    for name, act in (
        ("flock", lambda: fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)),
        ("fcntl", lambda: fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)),
        ("lease", lambda: fcntl.fcntl(fd, 1024, fcntl.F_RDLCK)),
    ):
        try:
            act(); found.append(name)
        except OSError as error:
            if name == "flock" and error.errno == 11: seen.append([path, "flock"])
    try:
        if not query(fd): seen.append([path, "fcntl"])
    except OSError: pass
keep, files, seen, able, times = [], set(), [], {}, {}
if mode == "hold":
    for path in paths:
        try: lock(path, able.setdefault(path, []))
        except OSError: pass
    print(json.dumps(able), flush=True); sys.stdin.readline()
elif mode == "touch":
    for path in paths:
        try:
            lock(path, able.setdefault(path, [])); os.read(keep[-1], 1)
        except OSError: pass
    print(json.dumps({"able": able, "seen": seen}), flush=True)
else:
    watch, names = libc.inotify_init1(0x800), {}
    for path in paths:
        number = libc.inotify_add_watch(watch, path.encode(), 0xfff)
        if number >= 0: names.setdefault(number, path)
        times[path] = os.lstat(path).st_atime_ns
    print(len(names), flush=True); sys.stdin.readline()
    seen = [[path, "atime"] for path in paths if os.lstat(path).st_atime_ns != times[path]]
    try: data = os.read(watch, 1 << 20)
    except BlockingIOError: data = b""
    while data:
        number, mask, cookie, length = struct.unpack("iIII", data[:16]); data = data[16 + length:]
        if number in names: seen.append([names[number], "inotify"])
    print(json.dumps(seen), flush=True)
`;

describe.each(attackPlaces())("on $name", (place) => {
  let stack: AsyncDisposableStack;
  let options: SandboxOpts;
  let first: Sandbox;
  let second: Sandbox;

  beforeAll(async () => {
    stack = new AsyncDisposableStack();
    const account = place.isRootless ? stack.use(await openOrdinaryUser({ ids: true })) : undefined;
    const serve = stack.use(
      await startServe(["--runtime", place.runtime, "--pool", "0"], { account, base: "copied" }),
    );
    options = { apiKey: serve.apiKey, apiUrl: serve.url, sandboxUrl: serve.url };
    const volume = await Volume.create("shared", options);
    const withVolume = { ...options, volumeMounts: { "/data": volume } };
    first = await Sandbox.create("base", withVolume);
    second = await Sandbox.create("base", withVolume);
    stack.defer(async () => void (await Promise.all([first.kill(), second.kill()])));
    for (const sandbox of [first, second]) {
      await sandbox.files.write("/opt/signal.py", PROGRAM, { user: "root" });
    }
    await first.commands.run("echo text > /data/file");
  });

  afterAll(async () => stack.disposeAsync());

  test.for(["root", "user"])(
    "E57 no file of all sandboxes carries a signal, as %s",
    async (user, context) => {
      const paths = await listPaths(first);
      expect(paths.length).toBeGreaterThan(60);
      const { able, seen } = await signal([...paths, "/data/file"], user);
      expect(
        seen.filter(([path]) => path !== "/data/file").filter(([path]) => !isKnown(place, path)),
      ).toEqual([]);
      const ways = Object.values(able).flat();
      // It could lock most of them: nothing was seen although there was something to see.
      expect(ways.filter((way) => way === "flock").length).toBeGreaterThan(paths.length / 3);
      const onVolume = new Set(
        seen.filter(([path]) => path === "/data/file").map(([, way]) => way),
      );
      // Each kernel of its own has its own locks and watches, also of a volume.
      const signals = new Set(hasOwnKernel(place.runtime) ? [] : ["flock", "inotify"]);
      expect(new Set(["flock", "inotify"]).intersection(onVolume)).toEqual(signals);
      tellCells(context, paths.length * 5);
    },
  );

  /** What the second sandbox sees of the first: its locks, and that it opens, reads and locks. */
  async function signal(paths: readonly string[], user: string) {
    const list = JSON.stringify(paths).replaceAll("'", String.raw`'\\''`);
    const command = (mode: string) => `python3 -B /opt/signal.py ${mode} '${list}'`;
    const watcher = await start(second, command("watch"), user);
    const holder = await start(first, command("hold"), user);
    const { stdout } = await second.commands.run(command("touch"), { user });
    // The neighbour's own reading is no signal: it is read again with nothing but the holder's.
    const touched: { seen: string[][]; able: Record<string, string[]> } = JSON.parse(stdout);
    await watcher.stop();
    await holder.stop();
    const quiet = await start(second, command("watch"), user);
    await first.commands.run(command("touch"), { user });
    const watched: string[][] = JSON.parse((await quiet.stop()).split("\n").at(-2) ?? "[]");
    return { able: touched.able, seen: [...touched.seen, ...watched] };
  }
});

/** A program that has said its first line; it goes on when it is stopped, and ends. */
async function start(sandbox: Sandbox, command: string, user: string) {
  const ready = Promise.withResolvers<void>();
  const handle: CommandHandle = await sandbox.commands.run(command, {
    user,
    background: true,
    stdin: true,
    onStdout: () => ready.resolve(),
  });
  await ready.promise;
  return {
    async stop(): Promise<string> {
      await sandbox.commands.sendStdin(handle.pid, "\n");
      return (await handle.wait()).stdout;
    },
  };
}
