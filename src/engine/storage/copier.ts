/**
 * Copies trees that programs are still writing to, by a perl program: round after round, each of
 * what changed since the one before, until little is left; then it says `ready` on its standard
 * error and waits for a line. The round after that line is strict: nothing may change meanwhile,
 * and the copies are equal to the trees when the program ends.
 */

/** What the copier says of a tree that is deeper than paths are long, or than it may open folders. */
export const TOO_DEEP = "tree is too deep to copy";

/** The perl program and its arguments; each tree is copied to a folder that is not there yet. */
export function copierCommand(
  trees: readonly { readonly source: string; readonly target: string }[],
): readonly [string, ...string[]] {
  const pairs = trees.flatMap(({ source, target }) => [source, target]);
  return ["perl", "-e", COPIER, "--", process.arch, ...pairs];
}

/**
 * No module is loaded. Sources are walked by open folders and no link is followed: whoever writes
 * there may be hostile. A file counts as changed when any fact of it did, its change time included,
 * which nobody can set; or when it changed shortly before it was copied. The pages of a file are
 * written back before it is copied, so that a later write through a mapping gets a time of its own.
 * Long runs of data are written past the cache, and read past it where it has them not: they are on
 * the disk when the copy ends, and the memory of the machine stays with those that use it.
 */
const COPIER = String.raw`
use strict;
my %number = (
  x64   => { statx => 332, mknod => 259, utimens => 280, chown => 260, list => 195, get => 192, set => 189, unset => 198, mmap => 9, read => 17, readv => 327, write => 18, flush => 277, clock => 228, folder => 0x10000, nofollow => 0x20000, direct => 0x4000 },
  arm64 => { statx => 291, mknod => 33, utimens => 88, chown => 54, list => 12, get => 9, set => 6, unset => 15, mmap => 222, read => 67, readv => 286, write => 68, flush => 84, clock => 113, folder => 0x4000, nofollow => 0x8000, direct => 0x10000 },
);
my $bad_status = 111;
my $call = $number{shift @ARGV} or exit $bad_status;
my ($eperm, $enxio, $emfile, $enospc, $enametoolong, $enodata, $enotsup, $edquot) = (1, 6, 24, 28, 36, 61, 95, 122);
my $too_deep = '${TOO_DEEP}';
my ($cwd, $link_itself) = (-100, 0x100);
my ($data, $hole) = (3, 4);
# The coarse clock of change times ticks every few milliseconds.
my $slack_ns = 20_000_000;
# The kernel writes back by itself what is older, and in good time.
my $fresh_ns = 60_000_000_000;
# What is left for the strict round takes some milliseconds.
my ($few_bytes, $most_rounds) = (2 << 20, 6);
my ($naps, $most_naps) = (0, 10);
my ($chunk, $page, $long) = (4 << 20, 4096, 1 << 20);
# The kernel's own limit of a list and of a value.
my $limit = 65536;
my ($list, $value, $facts) = ("\0" x $limit, "\0" x $limit, "\0" x 256);
my $memory = syscall $call->{mmap}, 0, $chunk, 3, 0x22, -1, 0;
$memory > 0 or fail('memory');
my ($is_strict, $moved, $can_clone) = (0, 0, 1);
# Of a round: inodes with several names by what was copied of them, and those names.
my (%copied, @several);

sub fail { print STDERR "copier: $_[0]: $!\n"; exit $bad_status }
# A disk that is full will not be less so in the next round.
sub trouble {
  # A target has no shorter name than its path, and each folder on the way is open.
  if ($! == $enametoolong || $! == $emfile) { print STDERR "copier: $too_deep\n"; exit $bad_status }
  $! == $enospc || $! == $edquot ? fail($_[0]) : die "$_[0]: $!\n";
}

sub now_ns {
  my $time = "\0" x 16;
  syscall $call->{clock}, 0, $time;
  my ($seconds, $nanos) = unpack 'q q', $time;
  return $seconds * 1_000_000_000 + $nanos;
}

# Names, owners, mode, inode and size, then times of change and what a device is: all but when it
# was read, and what it takes on the disk.
sub key { substr($facts, 16, 32) . substr($facts, 96, 40) }

# What most are: a file with one name, as it was; nothing else is asked about them.
sub is_same {
  my ($name, $was) = @_;
  return $was && !$was->{kids}
    && syscall($call->{statx}, $cwd, $name, $link_itself, 0x7ff, $facts) == 0
    && key() eq $was->{facts} && unpack('x16 L', $facts) == 1;
}

sub look {
  my ($name) = @_;
  syscall($call->{statx}, $cwd, $name, $link_itself, 0x7ff, $facts) == 0 or return undef;
  my %entry = (facts => key());
  @entry{qw(links uid gid mode ino size as an cs cn ms mn major minor)} =
    unpack 'x16 L L L S x2 Q Q x16 q L x20 q L x4 q L x4 L L', $facts;
  $entry{kind} = $entry{mode} & 0170000;
  $entry{ctime} = $entry{cs} * 1_000_000_000 + $entry{cn};
  return \%entry;
}

sub remove_tree {
  my ($path) = @_;
  my $entry = look($path) or return;
  if ($entry->{kind} == 0040000) {
    opendir(my $folder, $path) or trouble($path);
    my @names = grep { $_ ne '.' && $_ ne '..' } readdir $folder;
    closedir $folder;
    remove_tree("$path/$_") for @names;
    rmdir $path or trouble($path);
  } else {
    unlink $path or trouble($path);
  }
}

sub copy_attributes {
  my ($name, $target, $is_new) = @_;
  my $size = syscall $call->{list}, $name, $list, $limit;
  trouble("attributes of $target") if $size < 0 && $! != $enotsup;
  my @names = $size > 0 ? split(/\0/, substr $list, 0, $size) : ();
  my %kept = map { $_ => 1 } @names;
  unless ($is_new) {
    my $old = syscall $call->{list}, $target, $list, $limit;
    for my $extra (grep { !$kept{$_} } $old > 0 ? split(/\0/, substr $list, 0, $old) : ()) {
      syscall $call->{unset}, $target, $extra;
    }
  }
  for my $key (@names) {
    my $length = syscall $call->{get}, $name, $key, $value, $limit;
    if ($length < 0) {
      trouble("attribute of $target") unless $! == $enodata || $! == $enotsup;
      next;
    }
    my $text = substr $value, 0, $length;
    next if syscall($call->{set}, $target, $key, $text, $length, 0) == 0;
    # What the overlay reads must be there; who may not write the others does without them.
    trouble("attribute of $target") if $key =~ /\.overlay\./ || ($! != $eperm && $! != $enotsup);
  }
}

sub dress {
  my ($name, $target, $entry, $is_new) = @_;
  syscall($call->{chown}, $cwd, $target, $entry->{uid}, $entry->{gid}, $link_itself) == 0
    or trouble("owner of $target");
  if ($entry->{kind} != 0120000) {
    chmod($entry->{mode} & 07777, $target) or trouble("mode of $target");
  }
  copy_attributes($name, $target, $is_new);
  my $times = pack 'q q q q', @{$entry}{qw(as an ms mn)};
  syscall($call->{utimens}, $cwd, $target, $times, $link_itself) == 0 or trouble("times of $target");
}

sub write_all {
  my ($file, $from, $count, $at) = @_;
  my $descriptor = fileno $file;
  while ($count > 0) {
    my $done = syscall $call->{write}, $descriptor, $from, $count, $at;
    return 0 if $done <= 0;
    ($from, $count, $at) = ($from + $done, $count - $done, $at + $done);
  }
  return 1;
}

# What the cache has, from there; what it has not, past it: its pages stay with those that use them.
sub read_part {
  my ($in, $past, $wanted, $at) = @_;
  if ($past && $at % $page == 0) {
    my $place = pack 'Q2', $memory, $wanted;
    # RWF_NOWAIT
    my $count = syscall $call->{readv}, fileno($in), $place, 1, $at, 0, 8;
    $count -= $count % $page if $count > 0 && $count < $wanted;
    return $count if $count > 0;
    $count = syscall $call->{read}, fileno($past), $memory, $wanted + -$wanted % $page, $at;
    return $count < $wanted ? $count : $wanted if $count > 0;
  }
  my $count = syscall $call->{read}, fileno($in), $memory, $wanted, $at;
  return $count >= 0 ? $count : trouble('read');
}

sub copy_run {
  my ($in, $past, $out, $direct, $at, $end) = @_;
  while ($at < $end) {
    my $count = read_part($in, $past, $end - $at < $chunk ? $end - $at : $chunk, $at);
    last if $count == 0;
    my $whole = $direct && $at % $page == 0 ? $count - $count % $page : 0;
    $whole = 0 if $whole && !write_all($direct, $memory, $whole, $at);
    if ($whole < $count) {
      write_all($out, $memory + $whole, $count - $whole, $at + $whole) or trouble('write');
    }
    $at += $count;
    $moved += $count;
  }
}

# Writing back one file after another takes long; begun together it does not.
sub begin_writing {
  my ($name, $known) = @_;
  return if $is_strict;
  my $entry = look($name) or return;
  return if $entry->{kind} != 0100000 || ($known->{$name}{facts} // '') eq $entry->{facts};
  return if $entry->{ctime} < now_ns() - $fresh_ns;
  sysopen(my $file, $name, $call->{nofollow} | 0x800) or return;
  syscall $call->{flush}, fileno($file), 0, 0, 2;
}

sub copy_bytes {
  my ($name, $target, $entry) = @_;
  # A fifo in its place must not make us wait.
  sysopen(my $in, $name, $call->{nofollow} | 0x800) or trouble("read $target");
  -f $in && (stat _)[1] == $entry->{ino} or do { $! = 116; trouble($target) };
  sysopen(my $out, $target, 0x1 | 0x40 | 0x80, 0600) or trouble("write $target");
  unless ($is_strict) { syscall $call->{flush}, fileno($in), 0, 0, 7 }
  if ($can_clone) {
    return if ioctl $out, 0x40049409, fileno $in;
    $can_clone = 0;
  }
  my ($direct, $past, $at) = (undef, undef, 0);
  while ($at < $entry->{size}) {
    my $start = sysseek $in, $at, $data;
    last if !$start && $! == $enxio;
    $start = $start ? $start + 0 : $at;
    my $end = sysseek $in, $start, $hole;
    $end = $entry->{size} if !$end || $end > $entry->{size};
    last if $start >= $end;
    if (!$direct && $end - $start >= $long) {
      sysopen($direct, $target, 0x1 | $call->{direct}) or undef $direct;
      if (!$is_strict) { sysopen($past, $name, $call->{nofollow} | $call->{direct} | 0x800) or undef $past }
    }
    copy_run($in, $past, $out, $direct, $start, $end);
    $at = $end;
  }
  truncate($out, $entry->{size}) or trouble("size of $target");
  close($out) or trouble("write $target");
}

sub copy_leaf {
  my ($name, $target, $entry) = @_;
  my $kind = $entry->{kind};
  if ($kind == 0100000) {
    copy_bytes($name, $target, $entry);
  } elsif ($kind == 0120000) {
    my $to = readlink $name;
    defined $to && symlink($to, $target) or trouble("link $target");
  } else {
    my ($major, $minor) = @{$entry}{qw(major minor)};
    my $device = (($major & 0xfff) << 8) | ($minor & 0xff) | (($minor & ~0xff) << 12);
    syscall($call->{mknod}, $cwd, $target, $entry->{mode}, $device) == 0 or trouble("make $target");
  }
  dress($name, $target, $entry, 1);
}

# One name of the current folder; 1 when the copy of that folder changed.
sub visit_leaf {
  my ($name, $target, $entry, $known, $began) = @_;
  my $inode = $entry->{links} > 1 ? $entry->{ino} : undef;
  push @several, [$target, $inode] if defined $inode;
  return 0 if ($known->{$name}{facts} // '') eq $entry->{facts};
  remove_tree($target) if $known->{$name};
  # Until it is whole, the next round makes it anew.
  $known->{$name} = { facts => '' };
  if (defined $inode && ($copied{$inode}{facts} // '') eq $entry->{facts}) {
    link($copied{$inode}{target}, $target) or trouble("link $target");
  } else {
    copy_leaf($name, $target, $entry);
    $copied{$inode} = { facts => $entry->{facts}, target => $target } if defined $inode;
  }
  my $is_settled = $is_strict || $entry->{ctime} < $began - $slack_ns;
  $known->{$name}{facts} = $entry->{facts} if $is_settled;
  return 1;
}

sub visit_folder {
  my ($name, $target, $entry, $known, $began) = @_;
  my $is_new = !($known->{$name} && $known->{$name}{kids});
  if ($is_new) {
    remove_tree($target) if $known->{$name};
    $known->{$name} = { facts => '' };
    mkdir($target, 0700) or trouble("make $target");
    $known->{$name}{kids} = {};
  }
  sysopen(my $folder, $name, $call->{folder} | $call->{nofollow}) or trouble("open $target");
  opendir(my $back, '.') or trouble('folder');
  chdir $folder or trouble("enter $target");
  my $kids = $known->{$name}{kids};
  my $has_changed = eval { visit_names($target, $kids) };
  my $problem = $@;
  if ($problem eq '' && ($has_changed || $known->{$name}{facts} ne $entry->{facts})) {
    eval { dress('.', $target, $entry, $is_new); 1 } or $problem = $@;
    my $is_settled = $is_strict || $entry->{ctime} < $began - $slack_ns;
    $known->{$name}{facts} = $is_settled ? $entry->{facts} : '';
  }
  chdir $back or fail('folder');
  die $problem if $problem ne '';
  return $is_new;
}

sub visit {
  my ($name, $target, $known) = @_;
  my $began = now_ns();
  my $entry = look($name) or trouble($target);
  if (!$is_strict && $entry->{size} > $few_bytes && $entry->{ctime} >= $began - $slack_ns && $naps++ < $most_naps) {
    # Much would be copied for nothing: a moment later it is known to have been written before.
    select undef, undef, undef, 1.1 * $slack_ns / 1_000_000_000;
    $began = now_ns();
    $entry = look($name) or trouble($target);
  }
  return visit_folder($name, $target, $entry, $known, $began) if $entry->{kind} == 0040000;
  return visit_leaf($name, $target, $entry, $known, $began);
}

# Makes the copy of the current folder equal to it; whether anything had to be done in it.
sub visit_names {
  my ($target, $known) = @_;
  opendir(my $folder, '.') or trouble($target);
  my @names = grep { $_ ne '.' && $_ ne '..' } readdir $folder;
  closedir $folder;
  my %is_here = map { $_ => 1 } @names;
  my $has_changed = 0;
  for my $gone (grep { !$is_here{$_} } keys %$known) {
    remove_tree("$target/$gone");
    delete $known->{$gone};
    $has_changed = 1;
  }
  begin_writing($_, $known) for @names;
  for my $name (@names) {
    next if is_same($name, $known->{$name});
    my $done = eval { visit($name, "$target/$name", $known) };
    $has_changed = 1 if !defined $done || $done;
    # Programs take away and change what is just being looked at; the strict round sees it again.
    die $@ if !defined $done && $is_strict;
  }
  return $has_changed;
}

# Names of one file are names of one file in the copy, too, whichever of them were copied.
sub join_names {
  for my $pair (@several) {
    my ($target, $inode) = @$pair;
    my $source = $copied{$inode}{target};
    next if !defined $source || $source eq $target;
    my ($is, $should) = (look($target), look($source));
    next if $is && $should && $is->{ino} == $should->{ino};
    unlink $target;
    link($source, $target) or trouble("link $target");
  }
}

my %trees = @ARGV;
my %known;
sub round {
  (%copied, @several) = ();
  $moved = 0;
  for my $source (sort keys %trees) {
    opendir(my $back, '.') or fail('folder');
    visit($source, $trees{$source}, $known{$source} ||= {});
    chdir $back or fail('folder');
  }
  join_names() if $is_strict;
}

umask 0077;
for (my $count = 0; $count < $most_rounds; $count++) {
  eval { round(); 1 } or next;
  last if $moved <= $few_bytes;
}
print STDERR "ready\n";
defined readline STDIN or exit $bad_status;
$is_strict = 1;
eval { round(); 1 } or do { print STDERR "copier: $@"; exit $bad_status };
`;
