/**
 * The system calls that a sandbox may make; every other one fails with EPERM. It is an allow-list
 * of our own, grouped by purpose, for the machine's native calling convention only.
 *
 * Compiling the filter is a third of a runtime's start; crun keeps what it compiled beside its state
 * and takes it back by an annotation. What the first start of this process left is used by the later
 * ones, and each of them is verified: a container without exactly the filters of the first is ended,
 * and nothing is reused any more.
 */

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { SandboxError } from "../../common/errors.ts";
import { ifThere, readKernelFile } from "../../common/files.ts";
import { differing, isInt, masked, type SeccompArgument } from "./seccomp-conditions.ts";

const EPERM = 1;
const ENOSYS = 38;
const EPROTONOSUPPORT = 93;

/** CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET. */
const NEW_NAMESPACE_FLAGS = 0x7e020000;
const FAMILY_UNIX = 1;
const FAMILY_INET = 2;
const FAMILY_INET6 = 10;
const FAMILY_NETLINK = 16;
const NETLINK_ROUTE = 0;
const STREAM = 1;
const DATAGRAM = 2;
/** Beside flags. */
const TYPE_MASK = 0xf;
/** TCP, UDP and ping over IPv4 and IPv6: family, type and protocols, of which 0 is the usual one. */
const INTERNET = [
  [FAMILY_INET, STREAM, [0, 6]],
  [FAMILY_INET, DATAGRAM, [0, 17, 1]],
  [FAMILY_INET6, STREAM, [0, 6]],
  [FAMILY_INET6, DATAGRAM, [0, 17, 58]],
] as const;
/** MPTCP is tried by programs that do without. */
const PROTOCOL_MPTCP = 262;
/** Types a character into a terminal as if its user had: what a program left behind could do. */
const TIOCSTI = 0x5412;
/** Flags that ask for huge pages. No memory limit counts these, of which the machine has a fixed number. */
const HUGE_PAGES = [
  ["mmap", 3, 0x40000],
  ["memfd_create", 1, 0x4],
  ["shmget", 2, 0x800],
] as const;
const ENOMEM = 12;
const SOL_SOCKET = 1;
/** SO_ATTACH_FILTER and SO_ATTACH_REUSEPORT_CBPF: compiled, in memory that the machine has once. */
const SOCKET_FILTERS = [26, 51];
const RLIMIT_CORE = 4;
/** PER_LINUX, the same with a 2.6 version number, and the question which one is set. */
const PERSONALITIES = [0x0, 0x8, 0xffffffff];

interface SeccompRule {
  readonly names: readonly string[];
  readonly action: "SCMP_ACT_ALLOW" | "SCMP_ACT_ERRNO";
  readonly errnoRet?: number;
  readonly args?: readonly SeccompArgument[];
}

export interface SeccompProfile {
  readonly defaultAction: "SCMP_ACT_ERRNO";
  readonly defaultErrnoRet: number;
  readonly architectures: readonly string[];
  readonly syscalls: readonly SeccompRule[];
}

/** What programs need, by purpose. A runtime skips the names that its kernel does not have. */
const ALLOWED = {
  files: words(`
    access chdir chmod chown chroot close close_range copy_file_range creat dup dup2 dup3 faccessat
    faccessat2 fadvise64 fallocate fchdir fchmod fchmodat fchmodat2 fchown fchownat fcntl fdatasync
    flock fstat fstatfs fsync ftruncate futimesat getcwd getdents getdents64 lchown link
    linkat lseek lstat mkdir mkdirat mknod mknodat newfstatat open openat openat2 pipe pipe2
    pread64 preadv preadv2 pwrite64 pwritev pwritev2 read readahead readlink readlinkat readv
    rename renameat renameat2 rmdir sendfile splice stat statfs statx symlink symlinkat sync
    sync_file_range syncfs tee truncate umask unlink unlinkat utime utimensat utimes vmsplice
    write writev cachestat`),
  attributes: words(`
    fgetxattr flistxattr fremovexattr fsetxattr getxattr lgetxattr listxattr llistxattr
    lremovexattr lsetxattr removexattr setxattr`),
  waiting: words(`
    epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2
    inotify_add_watch inotify_init inotify_init1 inotify_rm_watch poll ppoll pselect6
    select signalfd signalfd4 timerfd_create timerfd_gettime timerfd_settime`),
  memory: words(`
    brk madvise map_shadow_stack membarrier mincore mlock mlock2 mlockall
    mprotect mremap mseal msync munlock munlockall munmap pkey_alloc pkey_free pkey_mprotect
    remap_file_pages`),
  processes: words(`
    arch_prctl execve execveat exit exit_group fork getpgid getpgrp getpid getppid getpriority
    getrlimit getrusage getsid gettid ioprio_get ioprio_set kill pidfd_open pidfd_send_signal
    prctl ptrace setpgid setpriority setsid tgkill times tkill vfork wait4
    waitid`),
  scheduling: words(`
    getcpu sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr
    sched_getparam sched_getscheduler sched_rr_get_interval sched_setaffinity sched_setattr
    sched_setparam sched_setscheduler sched_yield`),
  identity: words(`
    capget capset getegid geteuid getgid getgroups getresgid getresuid getuid setfsgid setfsuid
    setgid setgroups setregid setresgid setresuid setreuid setuid`),
  signals: words(`
    alarm pause restart_syscall rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo
    rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo sigaltstack`),
  threads: words(`
    futex futex_requeue futex_wait futex_waitv futex_wake get_robust_list get_thread_area rseq
    set_robust_list set_thread_area set_tid_address`),
  time: words(`
    clock_getres clock_gettime clock_nanosleep getitimer gettimeofday nanosleep setitimer time
    timer_create timer_delete timer_getoverrun timer_gettime timer_settime`),
  sockets: words(`
    accept accept4 bind connect getpeername getsockname getsockopt listen recvfrom recvmmsg
    recvmsg sendmmsg sendmsg sendto shutdown`),
  exchange: words(`
    mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink msgctl msgget msgrcv
    msgsnd semctl semget semop semtimedop shmat shmctl shmdt`),
  machine: words(`getrandom sysinfo uname`),
  confinement: words(`
    landlock_add_rule landlock_create_ruleset landlock_restrict_self seccomp`),
} as const;

export function createSeccompProfile(architecture: string): SeccompProfile {
  return {
    defaultAction: "SCMP_ACT_ERRNO",
    defaultErrnoRet: EPERM,
    // A foreign convention (32 bit, x32) is not listed: it ends the caller.
    architectures: [architecture === "arm64" ? "SCMP_ARCH_AARCH64" : "SCMP_ARCH_X86_64"],
    syscalls: [
      { names: Object.values(ALLOWED).flat(), action: "SCMP_ACT_ALLOW" },
      ...processRules(),
      // The machine has 65,536 events of asynchronous I/O for all together; libraries do without.
      { names: ["io_setup"], action: "SCMP_ACT_ERRNO", errnoRet: ENOSYS },
      ...memoryRules(),
      ...coreRules(),
      ...differing(1, [TIOCSTI]).map((argument) => allow("ioctl", argument)),
      ...socketRules(),
      ...optionRules(),
    ],
  };
}

function processRules(): SeccompRule[] {
  return [
    {
      names: ["clone"],
      action: "SCMP_ACT_ALLOW",
      args: [{ index: 0, value: NEW_NAMESPACE_FLAGS, valueTwo: 0, op: "SCMP_CMP_MASKED_EQ" }],
    },
    // Its flags lie in memory where no filter can see them; libc falls back to clone on ENOSYS.
    { names: ["clone3"], action: "SCMP_ACT_ERRNO", errnoRet: ENOSYS },
    ...PERSONALITIES.map((value) => allow("personality", equals(0, value))),
  ];
}

/** Programs that would like huge pages do without where there are none. */
function memoryRules(): SeccompRule[] {
  return HUGE_PAGES.flatMap(([name, index, flag]): SeccompRule[] => [
    allow(name, masked(index, flag, 0)),
    {
      names: [name],
      action: "SCMP_ACT_ERRNO",
      errnoRet: ENOMEM,
      args: [masked(index, flag, flag)],
    },
  ]);
}

/**
 * The limit of core dumps stays as it is, and who sets it is told that it was set: sudo and gpg ask for
 * none, and only the limit of one byte keeps the kernel from handing the memory of a process that
 * crashed to a program of the machine (`core_pattern`), which it starts for a limit of 0 too.
 */
function coreRules(): SeccompRule[] {
  const isCore = (index: number) => isInt(index, RLIMIT_CORE);
  const done = { action: "SCMP_ACT_ERRNO", errnoRet: 0 } as const;
  return [
    ...differing(0, [RLIMIT_CORE]).map((argument) => allow("setrlimit", argument)),
    { names: ["setrlimit"], ...done, args: [isCore(0)] },
    ...differing(1, [RLIMIT_CORE]).map((argument) => allow("prlimit64", argument)),
    allow("prlimit64", isCore(1), equals(2, 0)),
    {
      names: ["prlimit64"],
      ...done,
      args: [isCore(1), { index: 2, value: 0, op: "SCMP_CMP_NE" }],
    },
  ];
}

/** Every option of a socket but those that give it a filter. */
function optionRules(): SeccompRule[] {
  const ofSockets = isInt(1, SOL_SOCKET);
  return [
    ...differing(1, [SOL_SOCKET]).map((argument) => allow("setsockopt", argument)),
    ...differing(2, SOCKET_FILTERS).map((option) => allow("setsockopt", ofSockets, option)),
  ];
}

function allow(name: string, ...args: readonly SeccompArgument[]): SeccompRule {
  return { names: [name], action: "SCMP_ACT_ALLOW", args };
}

/**
 * For any other protocol, and any other family, the kernel would start a program of the machine, as
 * root, that looks for a module with it: also for a pair, of which only UNIX has any.
 */
function socketRules(): SeccompRule[] {
  const isUnix = equals(0, FAMILY_UNIX);
  const isNetlink = equals(0, FAMILY_NETLINK);
  const refuse = {
    names: ["socket"],
    action: "SCMP_ACT_ERRNO",
    errnoRet: EPROTONOSUPPORT,
  } as const;
  return [
    allow("socketpair", isUnix),
    allow("socket", isUnix),
    ...INTERNET.flatMap(([family, type, protocols]) =>
      protocols.map((protocol) =>
        allow("socket", equals(0, family), masked(1, TYPE_MASK, type), equals(2, protocol)),
      ),
    ),
    ...[FAMILY_INET, FAMILY_INET6].map((family) => ({
      ...refuse,
      args: [equals(0, family), masked(1, TYPE_MASK, STREAM), equals(2, PROTOCOL_MPTCP)],
    })),
    allow("socket", isNetlink, equals(2, NETLINK_ROUTE)),
    // PAM and sudo end on EPERM from the audit socket; this one they take for "no audit here".
    { ...refuse, args: [isNetlink, { index: 2, value: NETLINK_ROUTE, op: "SCMP_CMP_NE" }] },
  ];
}

function equals(index: number, value: number): SeccompArgument {
  return { index, value, op: "SCMP_CMP_EQ" };
}

function words(text: string): string[] {
  return text.trim().split(/\s+/);
}

/** Of crun; a runtime that does not know it gets no filter, which is seen afterwards. */
export const FILTER_ANNOTATION = "run.oci.seccomp_bpf_data";
const COMPILED = "seccomp.bpf";
/** Ours has some nine kilobytes. */
const MAX_FILTER_BYTES = 65_536;

export interface SeccompCache {
  /** The compiled filter of this runtime, in base64; undefined while none is known. */
  get(runtime: string): string | undefined;
  /** Learns from the first start of a runtime: its state's folder and the container's first process. */
  learn(runtime: string, state: string, pid: number): Promise<void>;
  /** @throws SandboxError unavailable when the process is filtered in any other way. */
  verify(runtime: string, pid: number): void;
}

interface Known {
  readonly filter: string;
  /** What the kernel says of a process that is filtered so. */
  readonly status: string;
}

export function createSeccompCache(): SeccompCache {
  const known = new Map<string, Known | "unusable">();
  const knownOf = (runtime: string): Known | undefined => {
    const entry = known.get(runtime);
    return entry === "unusable" ? undefined : entry;
  };
  return {
    get: (runtime) => knownOf(runtime)?.filter,
    async learn(runtime, state, pid) {
      if (known.has(runtime)) return;
      const compiled = await readCompiled(join(state, COMPILED));
      const status = filterStatus(pid);
      const isUsable = compiled !== undefined && status.startsWith("2 ");
      known.set(runtime, isUsable ? { filter: compiled.toString("base64"), status } : "unusable");
    },
    verify(runtime, pid) {
      const expected = knownOf(runtime)?.status;
      if (expected !== undefined && filterStatus(pid) === expected) return;
      known.set(runtime, "unusable");
      throw new SandboxError("unavailable", "container runs without its system call filter");
    },
  };
}

async function readCompiled(path: string): Promise<Buffer | undefined> {
  const bytes = (await ifThere(readFile(path))) ?? Buffer.alloc(0);
  return bytes.length > 0 && bytes.length <= MAX_FILTER_BYTES ? bytes : undefined;
}

/** Mode and number of filters: `2 1`. */
function filterStatus(pid: number): string {
  const text = readKernelFile(`/proc/${pid}/status`) ?? "";
  const field = (name: string) => new RegExp(`^${name}:\\s+(\\d+)$`, "m").exec(text)?.[1] ?? "";
  return `${field("Seccomp")} ${field("Seccomp_filters")}`;
}
