/**
 * The system calls that Node lacks, by one small perl program. It takes a list of steps, does them
 * in order and ends with `exec`, so that what it prepared (sockets, mounts, a cgroup) is inherited;
 * or with `exit`, where the steps were all.
 * It is killed when this process dies.
 */

import assert from "node:assert";

/** One step; the first word names it, the others are its arguments. */
export type LauncherStep =
  /** Makes a folder the current one; every relative path after it starts there. */
  | readonly ["chdir", path: string]
  /** Binds and listens on a unix socket, mode 0600; the first becomes descriptor 3, the next 4. */
  | readonly ["listen", name: string]
  /** A mount namespace of its own: no mount made after it is seen by the host. */
  | readonly ["isolate"]
  /**
   * A user namespace, in which `from` is the outside's `to`, and so on; `idmap` steps after it show
   * files with these ids. What the kernel counts for each user it counts for `to`, not for root.
   */
  | readonly ["ids", from: string, to: string, count: string]
  /** Mounts the user namespace of the last `ids` step at a new file, which keeps it. */
  | readonly ["hold", path: string]
  /** Mounts a read-only clone of a tree at a folder with the ids of the last `ids` step. */
  | readonly ["idmap", source: string, target: string]
  /** As `idmap`, but writable: files are made with the ids of the tree. */
  | readonly ["share", source: string, target: string]
  /** Mounts a read-only clone of a tree at a folder as it is. */
  | readonly ["clone", source: string, target: string]
  /** Mounts a folder at another one, writable. */
  | readonly ["bind", source: string, target: string]
  | readonly ["mkdir", path: string]
  /** Mounts a file system in which device nodes do not open. */
  | readonly ["mount", type: string, target: string, data: string]
  /**
   * Mounts an ext4 image by a loop device that is freed with its last mount. Programs of it do not
   * run, device nodes do not open, and no time of access is kept.
   */
  | readonly ["attach", image: string, target: string]
  /** Detaches a mount. */
  | readonly ["unmount", path: string]
  /** Gives a file or folder to a user and the group of the same id; a link is followed. */
  | readonly ["own", path: string, id: string]
  /** Moves this process into a cgroup, by the path of its `cgroup.procs`. */
  | readonly ["enter", path: string]
  /** Moves this process into the network namespace of a file. */
  | readonly ["netns", path: string]
  /** A limit of this process and of what it becomes, by the kernel's number; never raised. */
  | readonly ["limit", resource: string, value: string]
  /** Opens a program that `run` starts although whoever it becomes may not find its path. */
  | readonly ["open", path: string]
  /** Gives up root for good: this user and group, no others, and no way to more rights. */
  | readonly ["become", id: string]
  /** Writes a text into a file, which is made with mode 0644 where it is missing. */
  | readonly ["write", path: string, text: string]
  /** Marks a folder so that an overlay shows nothing of what lies below it. */
  | readonly ["opaque", path: string]
  /** Points a descriptor at an empty file in memory; a reader of its pipe sees the end then. */
  | readonly ["null", descriptor: "0" | "1" | "2"]
  | readonly ["exec", file: string, ...args: string[]]
  /** As `exec`, with the program of the last `open`; the first word is the name that it sees. */
  | readonly ["run", name: string, ...args: string[]]
  | readonly ["exit"];

/** The command that does the steps; the last one must be `exec`, `run` or `exit`. */
export function launcherCommand(steps: readonly LauncherStep[]): [string, ...string[]] {
  const last = steps.at(-1)?.[0];
  assert(last === "exec" || last === "run" || last === "exit", "the last step ends the launcher");
  const caller = [process.arch, String(process.pid)];
  return ["perl", "-e", LAUNCHER, "--", ...caller, ...steps.flat()];
}

/** perl-base alone must be enough: no module is loaded. Numbers are those of the kernel's ABI. */
const LAUNCHER = String.raw`
use strict;
my %number = (
  x64   => { unshare => 272, mount => 165, umount => 166, setxattr => 188, prctl => 157, memfd => 319, setns => 308, prlimit => 302, setgroups => 116, setresgid => 119, setresuid => 117 },
  arm64 => { unshare => 97,  mount => 40,  umount => 39,  setxattr => 5,   prctl => 167, memfd => 279, setns => 268, prlimit => 261, setgroups => 159, setresgid => 149, setresuid => 147 },
);
my ($open_tree, $move_mount, $mount_setattr) = (428, 429, 442);
my ($new_mounts, $new_user, $new_network) = (0x20000, 0x10000000, 0x40000000);
my ($bad_status, $cwd, $backlog) = (111, -100, 512);

my $report = \*STDERR;
sub fail { print $report "launcher: $_[0]: $!\n"; exit $bad_status }

my $arch = shift @ARGV;
my $call = $number{$arch} or do { print $report "launcher: no support for $arch\n"; exit $bad_status };
my $parent = shift @ARGV;
# PR_SET_PDEATHSIG: what nobody waits for any more must not go on, nor what it becomes by exec.
sub end_with_parent {
  syscall($call->{prctl}, 1, 9) == 0 or fail('prctl');
  # It may have died before that call.
  getppid() == $parent or exit $bad_status;
}
end_with_parent();
my $program;
my $listeners = 0;
my @kept;
my $namespace;

sub mount_call {
  my ($source, $target, $type, $flags, $data) = @_;
  syscall($call->{mount}, $source, $target, $type, $flags, $data) == 0 or fail("mount $target");
}

sub listen_at {
  my ($name) = @_;
  # Descriptors up to this number survive exec.
  local $^F = 3 + $listeners;
  socket(my $socket, 1, 1, 0) or fail('socket');
  fileno($socket) == 3 + $listeners or fail('descriptor is taken');
  my $mask = umask 0177;
  bind($socket, pack('S Z*', 1, $name)) or fail("bind $name");
  umask $mask;
  listen($socket, $backlog) or fail("listen $name");
  push @kept, $socket;
  $listeners++;
}

sub hold_namespace {
  my ($from, $to, $count) = @_;
  pipe(my $ready_in, my $ready_out) or fail('pipe');
  pipe(my $done_in, my $done_out) or fail('pipe');
  defined(my $pid = fork) or fail('fork');
  if ($pid == 0) {
    close $done_out;
    # The maker of a namespace pays for its watches, queues and signals. PR_SET_SECUREBITS, with
    # SECBIT_NO_SETUID_FIXUP: another id without the loss of any right.
    my $ok = syscall($call->{prctl}, 28, 4) == 0;
    $> = $to;
    $ok &&= $> == $to && syscall($call->{unshare}, $new_user) == 0;
    syswrite $ready_out, $ok ? 'y' : 'n';
    sysread $done_in, my $byte, 1;
    exec '/bin/true' unless $ok;
    kill 9, $$;
  }
  close $ready_out;
  sysread $ready_in, my $answer, 1;
  $answer eq 'y' or fail('user namespace');
  for my $kind ('uid_map', 'gid_map') {
    open(my $map, '>', "/proc/$pid/$kind") or fail($kind);
    syswrite($map, "$from $to $count") or fail($kind);
    close $map;
  }
  open($namespace, '<', "/proc/$pid/ns/user") or fail('user namespace');
  close $done_out;
  waitpid $pid, 0;
}

sub hold_at {
  my ($path) = @_;
  open(my $file, '>', $path) or fail($path);
  close $file;
  mount_call('/proc/self/fd/' . fileno $namespace, $path, '', 0x1000, '');
}

sub clone_tree {
  my ($source, $target, $mapped, $writable) = @_;
  # OPEN_TREE_CLONE, OPEN_TREE_CLOEXEC, AT_SYMLINK_NOFOLLOW
  my $tree = syscall($open_tree, $cwd, $source, 0x1 | 0x80000 | 0x100);
  $tree >= 0 or fail("open_tree $source");
  my $empty = '';
  # MOUNT_ATTR_RDONLY unless it is shared, NOSUID, NODEV and, for other ids, MOUNT_ATTR_IDMAP
  my $flags = ($writable ? 0x6 : 0x7) | ($mapped ? 0x100000 : 0);
  my $attributes = pack 'Q4', $flags, 0, 0, $mapped ? fileno $namespace : 0;
  syscall($mount_setattr, $tree, $empty, 0x1000, $attributes, 32) == 0 or fail("mount_setattr $source");
  syscall($move_mount, $tree, $empty, $cwd, $target, 0x4) == 0 or fail("move_mount $target");
  open(my $handle, '<&=', $tree) or fail('close');
  close $handle;
}

sub attach {
  my ($image, $target) = @_;
  open(my $backing, '+<', $image) or fail($image);
  open(my $control, '+<', '/dev/loop-control') or fail('loop-control');
  # struct loop_config with LO_FLAGS_AUTOCLEAR, and the file's name for whoever lists devices.
  my $config = pack 'L2 x40 x12 L a64 x112 x64', fileno $backing, 0, 4, substr($image, -63);
  for (1 .. 100) {
    # LOOP_CTL_GET_FREE, LOOP_CONFIGURE. Between the two another one may take the device: EBUSY.
    defined(my $number = ioctl($control, 0x4C82, 0)) or fail('no loop device');
    my $device = '/dev/loop' . ($number + 0);
    open(my $handle, '+<', $device) or fail($device);
    if (!ioctl($handle, 0x4C0A, $config)) {
      next if $! == 16;
      fail($device);
    }
    # MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_NOATIME
    mount_call($device, $target, 'ext4', 0x2 | 0x4 | 0x8 | 0x400, 'noinit_itable');
    return;
  }
  fail('no free loop device');
}

sub isolate {
  syscall($call->{unshare}, $new_mounts) == 0 or fail('mount namespace');
  # MS_REC, MS_SLAVE: what the host unmounts goes here too, nothing goes the other way.
  mount_call('none', '/', '', 0x4000 | 0x80000, '');
}

sub to_null {
  my ($descriptor) = @_;
  if ($descriptor == 2) {
    # A copy that exec closes: a failing exec can still be told.
    open(my $copy, '>&', \*STDERR) or fail('dup');
    $report = $copy;
  }
  # Not /dev/null: a runtime gives its standard streams to the container's root, and the container
  # sees the host's own null device, which its root could then close to everybody.
  my $name = 'null';
  my $file = syscall($call->{memfd}, $name, 1);
  $file >= 0 or fail('memfd');
  open(my $handle, '+<&=', $file) or fail('memfd');
  my $opened = $descriptor == 0 ? open(STDIN, '<&', $handle)
    : $descriptor == 1 ? open(STDOUT, '>&', $handle)
    : open(STDERR, '>&', $handle);
  $opened or fail('memfd');
}

sub write_file {
  my ($path, $text) = @_;
  open(my $file, '>', $path) or fail($path);
  syswrite($file, $text) or fail($path);
}

sub enter_network {
  open(my $file, '<', $_[0]) or fail($_[0]);
  syscall($call->{setns}, fileno $file, $new_network) == 0 or fail("network $_[0]");
}

sub limit {
  my ($resource, $value) = @_;
  my $limits = pack 'Q2', 0, 0;
  syscall($call->{prlimit}, 0, $resource + 0, 0, $limits) == 0 or fail("limit $resource");
  my ($soft, $hard) = unpack 'Q2', $limits;
  $value = $hard if $hard < $value;
  $limits = pack 'Q2', $value, $value;
  syscall($call->{prlimit}, 0, $resource + 0, $limits, 0) == 0 or fail("limit $resource");
}

sub open_program {
  # It survives exec: the program is found by its descriptor.
  local $^F = 255;
  open($program, '<', $_[0]) or fail($_[0]);
}

sub become {
  # A text would be taken for an address.
  my $id = $_[0] + 0;
  syscall($call->{setgroups}, 0, 0) == 0 or fail('setgroups');
  syscall($call->{setresgid}, $id, $id, $id) == 0 or fail('setresgid');
  syscall($call->{setresuid}, $id, $id, $id) == 0 or fail('setresuid');
  # PR_SET_NO_NEW_PRIVS
  syscall($call->{prctl}, 38, 1, 0, 0, 0) == 0 or fail('prctl');
  # The kernel forgets whom it must die with when ids change.
  end_with_parent();
}

my %step = (
  chdir   => [1, sub { chdir $_[0] or fail("chdir $_[0]") }],
  listen  => [1, \&listen_at],
  isolate => [0, \&isolate],
  ids     => [3, \&hold_namespace],
  hold    => [1, \&hold_at],
  idmap   => [2, sub { clone_tree(@_, 1) }],
  share   => [2, sub { clone_tree(@_, 1, 1) }],
  clone   => [2, sub { clone_tree(@_, 0) }],
  bind    => [2, sub { mount_call($_[0], $_[1], '', 0x1000, '') }],
  mkdir   => [1, sub { mkdir($_[0], 0755) or fail("mkdir $_[0]") }],
  own     => [2, sub { chown($_[1], $_[1], $_[0]) == 1 or fail("chown $_[0]") }],
  mount   => [3, sub { mount_call($_[0], $_[1], $_[0], 0x4, $_[2]) }],
  attach  => [2, \&attach],
  unmount => [1, sub { my $path = $_[0]; syscall($call->{umount}, $path, 2) == 0 or fail("unmount $path") }],
  enter   => [1, sub { write_file($_[0], "$$") }],
  netns   => [1, \&enter_network],
  limit   => [2, \&limit],
  open    => [1, \&open_program],
  become  => [1, \&become],
  write   => [2, \&write_file],
  opaque  => [1, sub {
    my ($path, $name, $value) = ($_[0], 'trusted.overlay.opaque', 'y');
    syscall($call->{setxattr}, $path, $name, $value, 1, 0) == 0 or fail("opaque $path");
  }],
  null    => [1, \&to_null],
);

umask 0022;
while (@ARGV) {
  my $name = shift @ARGV;
  exit 0 if $name eq 'exit';
  if ($name eq 'exec') {
    exec { $ARGV[0] } @ARGV or fail("exec $ARGV[0]");
  }
  if ($name eq 'run') {
    exec { '/proc/self/fd/' . fileno $program } @ARGV or fail("run $ARGV[0]");
  }
  my $row = $step{$name} or do { print $report "launcher: unknown step $name\n"; exit $bad_status };
  my ($count, $action) = @$row;
  $action->(splice @ARGV, 0, $count);
}
`;
