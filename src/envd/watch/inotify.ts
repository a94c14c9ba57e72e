/**
 * The daemon's one inotify instance, behind `perl/inotify.pl`. All watches share it, and a directory
 * that several of them watch has one watch of the kernel.
 */

import { spawn, type ChildProcess } from "node:child_process";
import { SandboxError } from "../../common/errors.ts";
import { DEFAULT_PATH, type Command } from "../bundled-program.ts";
import { helperFault, type HelperStreams } from "../helper-fault.ts";
import { FrameReader, toFrame } from "./frames.ts";
import { EventMask, parseKernelEvents, type KernelEvent } from "./kernel-event.ts";
import { parseReports, type WatchReport } from "./listing.ts";

/** What a subscriber is told, in the kernel's order. */
export type Notice =
  | { readonly kind: "event"; readonly event: KernelEvent }
  /** The answer to its request: every event of before the listings was told by now. */
  | { readonly kind: "watched"; readonly reports: readonly WatchReport[] }
  /** The kernel dropped events, of any directory. */
  | { readonly kind: "overflow" }
  /** All watches and requests are lost; with an error that stands, new ones are too. */
  | { readonly kind: "lost"; readonly error: SandboxError | undefined };

export type Subscriber = (notice: Notice) => void;

export interface Inotify {
  /** Counts a subscriber in; the helper process runs as long as there is one. */
  open(subscriber: Subscriber): void;
  /** Forgets a subscriber with all its watches. */
  close(subscriber: Subscriber): void;
  /**
   * Watches directories and lists them; `watched` answers. Paths are absolute, a byte in each
   * character. Links are not followed but on request.
   * @throws SandboxError internal when the helper keeps on failing.
   */
  watch(
    subscriber: Subscriber,
    paths: readonly string[],
    options?: { readonly followsLinks: boolean },
  ): void;
  /** Gives watches up. */
  release(subscriber: Subscriber, wds: readonly number[]): void;
}

/** A file system that does not answer must not hold every caller. */
const REPLY_MS = 30_000;
/** A helper that is lost more often than this in a minute is not started again. */
const MAX_LOSSES = 6;
const MINUTE_MS = 60_000;
/** What `perl/inotify.pl` exits with when a user has all the instances that one may have. */
const NO_INSTANCE = 113;

interface Request {
  readonly subscriber: Subscriber;
  reports: readonly WatchReport[];
}

/** The instance; without a process until it is needed. */
export function createInotify(helper: Command): Inotify {
  return new InotifyProcess(helper);
}

class InotifyProcess implements Inotify {
  readonly #command: readonly string[];
  readonly #subscribers = new Set<Subscriber>();
  readonly #watches = new Map<number, Set<Subscriber>>();
  readonly #requests = new Map<number, Request>();
  #child: ChildProcess | undefined;
  #lossesMs: number[] = [];
  #lastId = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(helper: Command) {
    this.#command = [...helper, process.arch];
  }

  open(subscriber: Subscriber): void {
    this.#subscribers.add(subscriber);
  }

  close(subscriber: Subscriber): void {
    if (!this.#subscribers.delete(subscriber)) return;
    const held = [...this.#watches].filter(([, subscribers]) => subscribers.has(subscriber));
    this.release(
      subscriber,
      held.map(([wd]) => wd),
    );
    if (this.#subscribers.size === 0) this.#end();
  }

  watch(
    subscriber: Subscriber,
    paths: readonly string[],
    { followsLinks } = { followsLinks: false },
  ): void {
    const child = (this.#child ??= this.#start());
    this.#lastId = (this.#lastId + 1) >>> 0;
    this.#requests.set(this.#lastId, { subscriber, reports: [] });
    const body = Buffer.from(paths.map((path) => `${path}\0`).join(""), "latin1");
    child.stdin?.write(toFrame(followsLinks ? "f" : "a", [this.#lastId], body));
    if (this.#requests.size === 1) this.#expectReply();
  }

  release(subscriber: Subscriber, wds: readonly number[]): void {
    const unused: number[] = [];
    for (const wd of wds) {
      const subscribers = this.#watches.get(wd);
      if (!subscribers?.delete(subscriber) || subscribers.size > 0) continue;
      this.#watches.delete(wd);
      unused.push(wd);
    }
    if (unused.length > 0) this.#child?.stdin?.write(toFrame("r", unused));
  }

  #start(): ChildProcess {
    const sinceMs = performance.now() - MINUTE_MS;
    this.#lossesMs = this.#lossesMs.filter((lostMs) => lostMs > sinceMs);
    if (this.#lossesMs.length >= MAX_LOSSES) {
      throw new SandboxError("internal", "the reader of inotify events keeps ending");
    }
    const [file = "perl", ...words] = this.#command;
    const child = spawn(file, words, {
      cwd: "/",
      env: { PATH: DEFAULT_PATH, LC_ALL: "C" },
      stdio: ["pipe", "pipe", "ignore"],
    });
    const frames = new FrameReader((frame) => {
      if (this.#child === child) this.#receive(frame);
    });
    const { stdin, stdout }: HelperStreams = child;
    stdout?.on("data", (chunk: Buffer) => frames.push(chunk));
    // Whatever breaks ends it, and its end is told to all.
    for (const source of [stdin, stdout]) source?.on("error", () => this.#lose(child));
    child.on("error", (error) => {
      this.#lose(child, helperFault("reader of inotify events", error));
    });
    child.on("exit", (code) => this.#lose(child, code === NO_INSTANCE ? noInstance() : undefined));
    return child;
  }

  #receive(frame: Buffer): void {
    const letter = String.fromCharCode(frame[0] ?? 0);
    if (letter === "e") {
      for (const event of parseKernelEvents(frame.subarray(1))) this.#tell(event);
      return;
    }
    const request = this.#requests.get(frame.readUInt32BE(1));
    if (request === undefined) return;
    if (letter === "l") {
      request.reports = parseReports(frame.subarray(5));
      // From here on their events are for the one who asked.
      for (const { wd } of request.reports) if (wd > 0) this.#subscribe(wd, request.subscriber);
      return;
    }
    this.#requests.delete(frame.readUInt32BE(1));
    this.#expectReply();
    if (!this.#subscribers.has(request.subscriber)) return;
    request.subscriber({ kind: "watched", reports: request.reports });
  }

  #subscribe(wd: number, subscriber: Subscriber): void {
    const subscribers = this.#watches.get(wd) ?? new Set();
    this.#watches.set(wd, subscribers.add(subscriber));
    // A caller that left meanwhile holds nothing.
    if (!this.#subscribers.has(subscriber)) this.release(subscriber, [wd]);
  }

  #tell(event: KernelEvent): void {
    if ((event.mask & EventMask.overflow) !== 0) {
      for (const subscriber of this.#subscribers) subscriber({ kind: "overflow" });
      return;
    }
    const subscribers = [...(this.#watches.get(event.wd) ?? [])];
    if ((event.mask & EventMask.ignored) !== 0) this.#watches.delete(event.wd);
    for (const subscriber of subscribers) subscriber({ kind: "event", event });
  }

  #expectReply(): void {
    clearTimeout(this.#timer);
    const child = this.#child;
    if (this.#requests.size === 0 || child === undefined) return;
    this.#timer = setTimeout(() => this.#lose(child), REPLY_MS);
  }

  /** Ends the process without telling a caller: none is left. */
  #end(): void {
    const child = this.#child;
    this.#child = undefined;
    this.#watches.clear();
    this.#requests.clear();
    clearTimeout(this.#timer);
    child?.kill("SIGKILL");
  }

  /** An error ends what was asked, and counts as no loss: a later caller may find a place. */
  #lose(child: ChildProcess, error?: SandboxError): void {
    if (this.#child !== child) return;
    this.#end();
    if (error === undefined) this.#lossesMs.push(performance.now());
    for (const subscriber of this.#subscribers) subscriber({ kind: "lost", error });
  }
}

function noInstance(): SandboxError {
  const message = "the system's limit of inotify instances is reached";
  return new SandboxError("resource_exhausted", message);
}
