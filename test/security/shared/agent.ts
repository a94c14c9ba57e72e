/** A program inside that locks, reads and watches files when it is told, and says what came of it. */

import { createInterface } from "node:readline";
import { PassThrough } from "node:stream";
import type { Sandbox } from "e2b";

/** Each way to leave a trace that another program could see, by the name that the program knows. */
export const WAYS = [
  "flock",
  "shared flock",
  "posix lock",
  "posix read lock",
  "open file lock",
  "lease",
  "write lease",
  "open",
  "read",
  "map",
  "list",
  "times",
  "mode",
] as const;
export type Way = (typeof WAYS)[number];

const AGENT = `
import ctypes, errno, fcntl, json, mmap, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
kept, watched = [], {}
def opened(path):
    for mode in (os.O_RDWR, os.O_RDONLY):
        try: fd = os.open(path, mode | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY); break
        except OSError as error: problem = error
    else: raise problem
    kept.append(fd)
    return fd
def record(kind): return struct.pack("hhqqi", kind, 0, 0, 0, 0)
def lock(path, kinds, command):
    fd = opened(path)
    for kind in kinds:
        try: return fcntl.fcntl(fd, command, record(kind)) and None
        except OSError as error: problem = error
    raise problem
WAYS = {
    "flock": lambda path: fcntl.flock(opened(path), fcntl.LOCK_EX | fcntl.LOCK_NB),
    "shared flock": lambda path: fcntl.flock(opened(path), fcntl.LOCK_SH | fcntl.LOCK_NB),
    "posix lock": lambda path: lock(path, (fcntl.F_WRLCK, fcntl.F_RDLCK), fcntl.F_SETLK),
    "posix read lock": lambda path: lock(path, (fcntl.F_RDLCK,), fcntl.F_SETLK),
    "open file lock": lambda path: lock(path, (fcntl.F_WRLCK, fcntl.F_RDLCK), 37),
    "lease": lambda path: fcntl.fcntl(opened(path), 1024, fcntl.F_RDLCK),
    "write lease": lambda path: fcntl.fcntl(opened(path), 1024, fcntl.F_WRLCK),
    "open": opened,
    "read": lambda path: os.read(opened(path), 1),
    "map": lambda path: mmap.mmap(opened(path), 1, prot=mmap.PROT_READ)[0],
    "list": lambda path: os.listdir(os.path.dirname(path)),
    "times": lambda path: os.utime(path, follow_symlinks=False),
    "mode": lambda path: os.chmod(path, os.stat(path).st_mode & 0o7777),
}
# The links of /proc are the processes of the machine, one count for all sandboxes.
def stamp(path):
    entry = os.lstat(path)
    links = 0 if path == "/proc" else entry.st_nlink
    return [entry.st_atime_ns, entry.st_mtime_ns, entry.st_ctime_ns, links, entry.st_mode]
def act(way, path):
    WAYS[way](path)
def release():
    while kept: os.close(kept.pop())
def attempt(way, path):
    try: WAYS[way](path)
    finally: release()
def watch(path):
    fd = libc.inotify_init1(0x800)
    watched.update(fd=fd, path=path, stamp=stamp(path))
    if libc.inotify_add_watch(fd, path.encode(), 0xfff) < 0: raise OSError(ctypes.get_errno(), "")
def seen():
    found = [] if stamp(watched["path"]) == watched["stamp"] else ["times"]
    try: found += ["event"] if os.read(watched["fd"], 1 << 16) else []
    except BlockingIOError: pass
    os.close(watched["fd"])
    return found
TASKS = {"act": act, "attempt": attempt, "release": release, "watch": watch, "seen": seen}
for line in sys.stdin:
    task, *words = json.loads(line)
    try: said = TASKS[task](*words) or "ok"
    except OSError as error: said = errno.errorcode.get(error.errno, str(error))
    except ValueError: said = "EINVAL"
    print(json.dumps(said), flush=True)
`;

export interface Agent {
  /** `ok`, or the name of an errno. */
  act(way: Way, path: string): Promise<unknown>;
  /** The same, given up at once. */
  attempt(way: Way, path: string): Promise<unknown>;
  /** Gives up what it locked and opened. */
  release(): Promise<unknown>;
  watch(path: string): Promise<unknown>;
  /** What the watch and the times of the file tell since then: `ok` for nothing. */
  seen(): Promise<unknown>;
}

/** Starts it; it ends with its sandbox. */
export async function startAgent(sandbox: Sandbox, user: string): Promise<Agent> {
  const path = `/tmp/agent-${user}.py`;
  await sandbox.files.write(path, AGENT, { user });
  const output = new PassThrough();
  const handle = await sandbox.commands.run(`python3 -B -u ${path}`, {
    user,
    background: true,
    stdin: true,
    timeoutMs: 0,
    onStdout: (text) => void output.write(text),
  });
  const lines = createInterface({ input: output })[Symbol.asyncIterator]();
  const ask = async (...words: readonly string[]): Promise<unknown> => {
    await sandbox.commands.sendStdin(handle.pid, `${JSON.stringify(words)}\n`);
    const line = await lines.next();
    return JSON.parse(String(line.value));
  };
  return {
    act: async (way, file) => ask("act", way, file),
    attempt: async (way, file) => ask("attempt", way, file),
    release: async () => ask("release"),
    watch: async (file) => ask("watch", file),
    seen: async () => ask("seen"),
  };
}
