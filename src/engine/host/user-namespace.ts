/**
 * An ordinary user's way to containers: the program replaces itself by the same program in a user
 * namespace of its own, in which it is root, with the ids that `/etc/subuid` and `/etc/subgid` give
 * to its user. Process number, standard streams and environment stay what they are.
 */

import { readFile } from "node:fs/promises";
import { userInfo } from "node:os";
import { causeCode } from "../../common/errors.ts";
import { ID_RANGE, NAMESPACE_FAULT, NAMESPACE_ID_BASE } from "../../common/privilege.ts";
import { findProgram } from "./find-program.ts";

const PROGRAMS = ["perl", "newuidmap", "newgidmap"] as const;

/**
 * Replaces this process. Returns where there is nothing to gain, or with what is missing; the new
 * one is told in the environment what failed.
 */
export async function enterOwnNamespace(home: string): Promise<string | undefined> {
  const isOrdinary = process.platform === "linux" && process.getuid?.() !== 0;
  if (!isOrdinary) return undefined;
  const plan = await planNamespace(home);
  if (typeof plan === "string") return plan;
  const again = [process.execPath, ...process.execArgv, ...process.argv.slice(1)];
  return process.execve?.(plan.perl, ["perl", "-e", ENTER, "--", ...plan.words, ...again]);
}

interface Plan {
  readonly perl: string;
  readonly words: readonly string[];
}

/** What the program below is given, or what is missing. */
async function planNamespace(home: string): Promise<Plan | string> {
  const [perl, newuidmap, newgidmap] = PROGRAMS.map((name) => findProgram(name));
  if (perl === undefined) return "no perl: apt-get install perl-base";
  if (newuidmap === undefined || newgidmap === undefined) {
    return "no newuidmap and newgidmap: apt-get install uidmap";
  }
  const { username, uid, gid } = userInfo();
  const users = findRange(await readText("/etc/subuid"), [username, String(uid)]);
  const groups = findRange(await readText("/etc/subgid"), [username, String(uid)]);
  if (users === undefined || groups === undefined) {
    return (
      `no range of ${ID_RANGE} ids for this user in /etc/subuid and /etc/subgid: ` +
      `usermod --add-subuids 100000-165535 --add-subgids 100000-165535 ${username}`
    );
  }
  return {
    perl,
    words: [NAMESPACE_FAULT, process.arch, home].concat(
      mapCommand(newuidmap, uid, users),
      mapCommand(newgidmap, gid, groups),
    ),
  };
}

/** The words after the number of the process. */
function mapCommand(tool: string, own: number, first: number): string {
  return [tool, "0", own, "1", NAMESPACE_ID_BASE, first, ID_RANGE].join(" ");
}

/** The first id of a range that is large enough; @see subuid(5). */
export function findRange(text: string, names: readonly string[]): number | undefined {
  for (const line of text.split("\n")) {
    const [name = "", first, count] = line.split(":");
    if (names.includes(name) && Number(count) >= ID_RANGE) return Number(first);
  }
  return undefined;
}

async function readText(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if (causeCode(error) === "ENOENT") return "";
    throw error;
  }
}

/**
 * All instances of a home share one namespace, since nobody in another one may end what it holds: it
 * is found by the processes that are in it or in a container of it, and joined, else made. A child
 * gives it ids: only the set-uid helpers of the system may. Whatever fails, the program goes on and
 * says why. Numbers are those of the kernel's ABI.
 */
const ENTER = String.raw`
use strict;
my ($fault, $arch, $home, @maps) = splice @ARGV, 0, 5;
my %number = (x64 => { unshare => 272, setns => 308 }, arm64 => { unshare => 97, setns => 268 });
my ($new_user, $get_parent, $lock_alone, $lock_seconds) = (0x10000000, 0xb702, 2, 60);
my $call = $number{$arch};
my $known = "$home/namespace";
my $mask = umask;

sub go_on { umask $mask; $ENV{$fault} = $_[0] if defined $_[0]; exec { $ARGV[0] } @ARGV; exit 111 }

sub start_ticks {
  open(my $file, '<', "/proc/$_[0]/stat") or return '';
  my $line = <$file> // '';
  return (split / /, substr $line, rindex($line, ')') + 2)[19] // '';
}

sub namespace_of {
  open(my $handle, '<', "/proc/$_[0]/ns/user") or return;
  return $handle;
}

sub number_of { return (stat $_[0])[1] // 0 }

# The namespace right below ours that this process is in, at whatever depth.
sub below_ours {
  my ($pid) = @_;
  my $ours = number_of(namespace_of($$));
  my $handle = namespace_of($pid) or return;
  return if number_of($handle) == $ours;
  while (1) {
    my $fd = syscall(SYS_IOCTL(), fileno $handle, $get_parent, 0);
    return if $fd < 0;
    open(my $parent, '<&=', $fd) or return;
    return $handle if number_of($parent) == $ours;
    $handle = $parent;
  }
}

sub SYS_IOCTL { return $arch eq 'x64' ? 16 : 29 }

sub members {
  my @found;
  if (open(my $file, '<', $known)) { while (<$file>) { push @found, [$1, $2] if /^(\d+) (\d+)$/ } }
  for my $path (glob("\Q$home\E/instances/*/s/*/container.json")) {
    open(my $file, '<', $path) or next;
    local $/;
    my $text = <$file>;
    push @found, [$1, $2] if $text =~ /"pid":(\d+),"startTicks":"(\d+)"/;
  }
  return grep { start_ticks($_->[0]) eq $_->[1] } @found;
}

sub give_ids {
  my ($ready, $out) = @_;
  open(STDIN, '<', '/dev/null');
  open(STDOUT, '>&', $out);
  open(STDERR, '>&', $out);
  my $parent = getppid();
  sysread($ready, my $byte, 1) or exit 1;
  for (@maps) {
    my ($tool, @words) = split / /;
    exit 1 if system { $tool } $tool, $parent, @words;
  }
  exit 0;
}

sub make_namespace {
  pipe(my $ready_in, my $ready_out) && pipe(my $text_in, my $text_out) or return "pipe: $!";
  my $pid = fork;
  defined $pid or return "fork: $!";
  if ($pid == 0) {
    close $ready_out;
    close $text_in;
    give_ids($ready_in, $text_out);
  }
  close $ready_in;
  close $text_out;
  my $made = syscall($call->{unshare}, $new_user) == 0;
  my $reason = "user namespace: $!: allow it with sysctl kernel.unprivileged_userns_clone=1 "
    . 'or kernel.apparmor_restrict_unprivileged_userns=0';
  syswrite $ready_out, 'y' if $made;
  close $ready_out;
  my $text = '';
  while (sysread $text_in, my $part, 4096) { $text .= $part if length $text < 4096 }
  waitpid $pid, 0;
  return $reason unless $made;
  $text =~ s/\s+/ /g;
  return $? ? "ids: $text" : undef;
}

umask 0077;
mkdir $home;
open(my $lock, '>', "$known.lock") or go_on("$known.lock: $!");
# A holder that is stopped must not keep others for ever.
$SIG{ALRM} = sub { go_on("$known.lock: another process holds it for $lock_seconds s") };
alarm $lock_seconds;
flock($lock, $lock_alone) or go_on("$known.lock: $!");
alarm 0;
my @members = members();
for my $member (@members) {
  my $handle = below_ours($member->[0]) or next;
  next if syscall($call->{setns}, fileno $handle, $new_user) != 0;
  remember(@members);
  go_on(undef);
}
my $failure = make_namespace();
remember() unless defined $failure;
go_on($failure);

sub remember {
  open(my $file, '>', "$known.part") or go_on("$known.part: $!");
  my %seen;
  print $file "$_->[0] $_->[1]\n" for grep { !$seen{$_->[0]}++ } @_, [$$, start_ticks($$)];
  close $file;
  rename "$known.part", $known;
}
`;
