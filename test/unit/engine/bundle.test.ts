/** The configuration of a container, pinned: a field that changes here changes the isolation. */

import { describe, expect, test } from "vitest";
import { createBundle, type BundleOptions } from "../../../src/engine/oci/bundle.ts";
import { hasOptionLimit } from "../../../src/engine/oci/option-memory.ts";
import type { SeccompArgument } from "../../../src/engine/oci/seccomp-conditions.ts";
import { createSeccompProfile } from "../../../src/engine/oci/seccomp.ts";

const OPTIONS: BundleOptions = {
  id: "abc",
  hostname: "sandbox",
  limits: { memoryMb: 512, cpus: 1.5, diskMb: 1024, pids: 200 },
  idBase: 0x200000,
  rootPath: "/stage/rootfs",
  daemonPath: "/stage/daemon",
  usersPath: "/stage/users",
  cgroupPath: "/sandbox-mcp/abc",
  host: { architecture: "x64", hasSwapLimit: true },
};

const CAPABILITIES = [
  "CAP_CHOWN",
  "CAP_DAC_OVERRIDE",
  "CAP_FOWNER",
  "CAP_FSETID",
  "CAP_KILL",
  "CAP_NET_BIND_SERVICE",
  "CAP_SETFCAP",
  "CAP_SETGID",
  "CAP_SETPCAP",
  "CAP_SETUID",
  "CAP_SYS_CHROOT",
];

describe("the bundle", () => {
  test("a compiled filter takes the place of the profile", () => {
    const bundle = createBundle({ ...OPTIONS, filter: "AAAA" });
    expect(bundle).toMatchObject({ annotations: { "run.oci.seccomp_bpf_data": "AAAA" } });
    expect(JSON.stringify(bundle)).not.toContain("defaultAction");
    expect(JSON.stringify(createBundle(OPTIONS))).toContain("defaultAction");
  });

  test("has every namespace, its own ids and its limits", () => {
    const ids = [{ containerID: 0, hostID: 0x200000, size: 65_536 }];
    expect(createBundle(OPTIONS)).toMatchObject({
      ociVersion: "1.0.2",
      hostname: "sandbox",
      root: { path: "/stage/rootfs", readonly: false },
      linux: {
        namespaces: [
          { type: "pid" },
          { type: "mount" },
          { type: "ipc" },
          { type: "uts" },
          { type: "network" },
          { type: "cgroup" },
          { type: "user", path: "/stage/users" },
        ],
        uidMappings: ids,
        gidMappings: ids,
        cgroupsPath: "/sandbox-mcp/abc",
        resources: {
          devices: [{ allow: false, access: "rwm" }],
          memory: { limit: 536_870_912, swap: 536_870_912 },
          cpu: { quota: 150_000, period: 100_000 },
          pids: { limit: 200 },
        },
      },
    });
  });

  test("gives root few capabilities", () => {
    expect(createBundle(OPTIONS)).toMatchObject({
      process: {
        terminal: false,
        user: { uid: 0, gid: 0 },
        noNewPrivileges: false,
        oomScoreAdj: 100,
        capabilities: {
          bounding: CAPABILITIES,
          effective: CAPABILITIES,
          permitted: CAPABILITIES,
          inheritable: [],
          ambient: [],
        },
      },
    });
  });

  test("asks for no swap limit where the kernel has none", () => {
    const host = { ...OPTIONS.host, hasSwapLimit: false };
    expect(createBundle({ ...OPTIONS, host })).toMatchObject({
      linux: { resources: { memory: { limit: 536_870_912 } } },
    });
    expect(JSON.stringify(createBundle({ ...OPTIONS, host }))).not.toContain('"swap"');
  });

  test("limits what a socket holds for its options where a container can have a limit", () => {
    const limit = { "net.core.optmem_max": "4096" };
    const host = { ...OPTIONS.host, hasOptionLimit: true };
    expect(createBundle({ ...OPTIONS, host })).toMatchObject({ linux: { sysctl: limit } });
    expect(createBundle(OPTIONS)).not.toMatchObject({ linux: { sysctl: limit } });
    expect(["5.19.0", "6.1.0-37-amd64", "6.7.9"].map(hasOptionLimit)).not.toContain(true);
    expect(["6.8.0-31-generic", "6.18.44", "7.0.0"].map(hasOptionLimit)).not.toContain(false);
  });

  test("is the same for the same options and names no hook and no annotation", () => {
    const text = JSON.stringify(createBundle(OPTIONS));
    expect(text).toBe(JSON.stringify(createBundle(structuredClone(OPTIONS))));
    expect(text).not.toMatch(/"(hooks|annotations)"/);
  });
});

/** Calls that reach the kernel's rarer parts; none of them is in the list. */
const REFUSED = `acct add_key adjtimex bpf clock_adjtime clock_settime create_module delete_module
  fanotify_init finit_module fsconfig fsmount fsopen fspick init_module io_uring_enter
  io_uring_register io_uring_setup ioperm iopl kcmp kexec_file_load kexec_load keyctl
  lookup_dcookie mbind migrate_pages mount mount_setattr move_mount move_pages
  name_to_handle_at nfsservctl open_by_handle_at open_tree perf_event_open pidfd_getfd
  pivot_root process_madvise process_vm_readv process_vm_writev quotactl quotactl_fd reboot
  request_key setdomainname sethostname setns settimeofday swapoff swapon syslog umount umount2
  unshare uselib userfaultfd ustat vhangup`.split(/\s+/);

describe("the system call filter", () => {
  const profile = createSeccompProfile("x64");
  const rulesFor = (name: string) => profile.syscalls.filter(({ names }) => names.includes(name));

  test("refuses whatever is not listed", () => {
    expect(profile).toMatchObject({
      defaultAction: "SCMP_ACT_ERRNO",
      defaultErrnoRet: 1,
      architectures: ["SCMP_ARCH_X86_64"],
    });
    expect(REFUSED.filter((name) => rulesFor(name).length > 0)).toEqual([]);
  });

  test("lets clone make processes and threads, but no namespace", () => {
    expect(rulesFor("clone")).toEqual([
      {
        names: ["clone"],
        action: "SCMP_ACT_ALLOW",
        args: [{ index: 0, value: 0x7e020000, valueTwo: 0, op: "SCMP_CMP_MASKED_EQ" }],
      },
    ]);
    expect(rulesFor("clone3")).toEqual([
      { names: ["clone3"], action: "SCMP_ACT_ERRNO", errnoRet: 38 },
    ]);
  });

  test("tells programs that there is no asynchronous I/O, of which all share one count", () => {
    expect(rulesFor("io_setup")).toEqual([
      { names: ["io_setup"], action: "SCMP_ACT_ERRNO", errnoRet: 38 },
    ]);
    expect(rulesFor("io_submit")).toEqual([]);
  });

  /** What the filter answers to a call with these arguments, as the kernel sees them. */
  function answer(name: string, ...given: readonly bigint[]): string {
    const meets = ({ index, value, valueTwo = 0, op }: SeccompArgument) => {
      const argument = given[index] ?? 0n;
      if (op === "SCMP_CMP_MASKED_EQ") return (argument & BigInt(value)) === BigInt(valueTwo);
      return (argument === BigInt(value)) === (op === "SCMP_CMP_EQ");
    };
    const found = rulesFor(name).filter(({ args = [] }) => args.every((each) => meets(each)));
    const answers = new Set(found.map(({ action, errnoRet }) => `${action} ${errnoRet ?? ""}`));
    // Which of two rules holds, a library decides.
    expect(answers.size).toBeLessThanOrEqual(1);
    return [...answers][0]?.replace("SCMP_ACT_", "").trim() ?? "ERRNO 1";
  }

  const WIDE = 2n ** 32n;

  test("opens sockets of TCP, UDP and ping, of UNIX and netlink route, and pairs of UNIX", () => {
    const families = Array.from({ length: 46 }, (_, family) => BigInt(family));
    const protocols = [0n, 1n, 2n, 6n, 17n, 33n, 58n, 115n, 132n, 136n, 255n, 262n];
    const calls = families.flatMap((family) =>
      [1n, 2n, 3n, 5n, 10n].flatMap((type) =>
        protocols.map((protocol) => [family, type, protocol] as const),
      ),
    );
    const open = calls
      .filter((call) => answer("socket", ...call) === "ALLOW")
      .map((call) => call.join(" "));
    const ofInternet = open.filter((name) => !/^(?:1|16) /.test(name));
    const [v4, v6] = [
      ["2 1 0", "2 1 6", "2 2 0", "2 2 1", "2 2 17"],
      ["10 1 0", "10 1 6", "10 2 0", "10 2 17", "10 2 58"],
    ];
    expect(ofInternet).toEqual([...v4, ...v6]);
    expect(open.filter((name) => name.startsWith("16 ") && !name.endsWith(" 0"))).toEqual([]);
    // With its flags, as programs ask for it; PAM and sudo, and who tries MPTCP, are told so.
    expect(answer("socket", 2n, 0x80801n, 6n)).toBe("ALLOW");
    expect(answer("socket", 16n, 3n, 9n)).toBe("ERRNO 93");
    expect(answer("socket", 10n, 0x80001n, 262n)).toBe("ERRNO 93");
    const pairs = families.filter((family) => answer("socketpair", family, 1n, 0n) === "ALLOW");
    expect(pairs).toEqual([1n]);
  });

  test("gives no huge pages, which no limit counts", () => {
    const cases = { mmap: [0x40000n, 3], memfd_create: [0x4n, 1], shmget: [0x800n, 2] } as const;
    for (const [name, [flag, index]] of Object.entries(cases)) {
      const call = (flags: bigint) =>
        answer(name, ...Array.from({ length: index + 1 }, () => flags));
      expect([call(0n), call(0x22n), call(WIDE)]).toEqual(["ALLOW", "ALLOW", "ALLOW"]);
      expect([call(flag), call(flag + 1n), call(WIDE + flag)]).toEqual(
        Array.from({ length: 3 }, () => "ERRNO 12"),
      );
    }
  });

  test("keeps the limit of core dumps, and tells who sets it that it is set", () => {
    for (const core of [4n, WIDE + 4n]) {
      expect(answer("setrlimit", core, 1n)).toBe("ERRNO 0");
      expect(answer("prlimit64", 0n, core, 1n)).toBe("ERRNO 0");
      expect(answer("prlimit64", 0n, core, 0n, 1n)).toBe("ALLOW");
    }
    for (const other of [0n, 3n, 5n, 7n, 12n, 15n, WIDE]) {
      expect(answer("setrlimit", other, 1n)).toBe("ALLOW");
      expect(answer("prlimit64", 0n, other, 1n)).toBe("ALLOW");
    }
  });

  test("gives sockets no filters, and every other option", () => {
    for (const option of Array.from({ length: 300 }, (_, index) => BigInt(index))) {
      const expected = option === 26n || option === 51n ? "ERRNO 1" : "ALLOW";
      expect([option, answer("setsockopt", 3n, 1n, option)]).toEqual([option, expected]);
      expect(answer("setsockopt", 3n, WIDE + 1n, WIDE + option)).toBe(expected);
      for (const level of [0n, 6n, 17n, 41n]) {
        expect(answer("setsockopt", 3n, level, option)).toBe("ALLOW");
      }
    }
  });

  test("names no call twice", () => {
    const [list] = profile.syscalls;
    expect(new Set(list?.names).size).toBe(list?.names.length);
  });
});
