# Makes the system calls that Node lacks before a program starts. Arguments: Node's name of the
# processor, the pid of the caller, then a list of steps, each a name and its arguments, which
# stand in `engine/host/launcher.ts`. It does them in order and ends with `exec` or `run`, so that
# what it prepared (sockets, mounts, a cgroup) is inherited; or with `exit`, where the steps were
# all. It is killed when its caller dies. perl-base alone must be enough: no module is loaded.
# Still needed: no program of util-linux or coreutils listens on a socket that its successor
# inherits, maps the ids of a mount (util-linux 2.38 is in use), opens a path below a hostile root
# without links, or does all of it in one process that ties itself to its caller.
# Status 111: a step failed, and standard error says which.

use v5.14;

our ( $call, $namespace, $cwd ) = ( undef, undef, -100 );
my ( $new_mounts, $new_user, $new_network ) = ( 0x20000, 0x10000000, 0x40000000 );
my ( $bad_status, $backlog ) = ( 111, 512 );

my $report = \*STDERR;
sub complain { print $report "launcher: $_[0]\n"; exit $bad_status }
sub fail { complain("$_[0]: $!") }

my $arch = shift @ARGV;

# From the directory of this program.
sub load {
    my $path = $0 =~ s{[^/]*\z}{$_[0]}r;
    return do($path) || complain( "cannot load $path: " . ( $@ || $! ) );
}
$call = load('syscalls.pl')->($arch) or complain("no support for $arch");
load('launcher-disks.pl');
my $parent = shift @ARGV;

# PR_SET_PDEATHSIG: what nobody waits for any more must not go on, nor what it becomes by exec.
sub end_with_parent {
    syscall( $call->{prctl}, 1, 9 ) == 0 or fail('prctl');
    # It may have died before that call.
    getppid() == $parent or exit $bad_status;
}
end_with_parent();

my ( $program, @kept );
my $listeners = 0;

sub mount_call {
    my ( $source, $target, $type, $flags, $data ) = @_;
    syscall( $call->{mount}, $source, $target, $type, $flags, $data ) == 0 or fail("mount $target");
}

sub listen_at {
    my ($name) = @_;
    # Descriptors up to this number survive exec.
    local $^F = 3 + $listeners;
    socket( my $socket, 1, 1, 0 ) or fail('socket');
    fileno($socket) == 3 + $listeners or fail('descriptor is taken');
    my $mask = umask 0177;
    bind( $socket, pack( 'S Z*', 1, $name ) ) or fail("bind $name");
    umask $mask;
    listen( $socket, $backlog ) or fail("listen $name");
    push @kept, $socket;
    $listeners++;
}

sub hold_namespace {
    my ( $from, $to, $count, $more ) = ( @_, '' );
    pipe( my $ready_in, my $ready_out ) or fail('pipe');
    pipe( my $done_in, my $done_out ) or fail('pipe');
    defined( my $pid = fork ) or fail('fork');
    if ( $pid == 0 ) {
        close $done_out;
        # The maker of a namespace pays for its watches, queues and signals. PR_SET_SECUREBITS, with
        # SECBIT_NO_SETUID_FIXUP: another id without the loss of any right.
        my $ok = syscall( $call->{prctl}, 28, 4 ) == 0;
        $> = $to;
        $ok &&= $> == $to && syscall( $call->{unshare}, $new_user ) == 0;
        syswrite $ready_out, $ok ? 0 : $! + 0;
        sysread $done_in, my $byte, 1;
        exec {'/bin/true'} '/bin/true' unless $ok;
        kill 9, $$;
    }
    close $ready_out;
    sysread $ready_in, my $answer, 8;
    $! = $answer || 0;
    $answer eq '0' or fail('user namespace');
    for my $kind ( 'uid_map', 'gid_map' ) {
        open( my $map, '>', "/proc/$pid/$kind" ) or fail($kind);
        syswrite( $map, "$from $to $count$more" ) or fail($kind);
        close $map;
    }
    open( $namespace, '<', "/proc/$pid/ns/user" ) or fail('user namespace');
    close $done_out;
    waitpid $pid, 0;
}

sub hold_at {
    my ($path) = @_;
    open( my $file, '>', $path ) or fail($path);
    close $file;
    mount_call( '/proc/self/fd/' . fileno $namespace, $path, '', 0x1000, '' );
}

sub open_clone {
    my ( $source, $mapped, $writable ) = @_;
    # OPEN_TREE_CLONE, OPEN_TREE_CLOEXEC, AT_SYMLINK_NOFOLLOW
    my $tree = syscall( $call->{open_tree}, $cwd, $source, 0x1 | 0x80000 | 0x100 );
    $tree >= 0 or fail("open_tree $source");
    my $empty = '';
    # MOUNT_ATTR_RDONLY unless it is writable, NOSUID, NODEV and, for other ids, MOUNT_ATTR_IDMAP
    my $flags = ( $writable ? 0x6 : 0x7 ) | ( $mapped ? 0x100000 : 0 );
    my $attributes = pack 'Q4', $flags, 0, 0, $mapped ? fileno $namespace : 0;
    syscall( $call->{mount_setattr}, $tree, $empty, 0x1000, $attributes, 32 ) == 0
        or fail("mount_setattr $source");
    return $tree;
}

sub clone_tree {
    my ( $source, $target, $mapped ) = @_;
    my ( $tree, $empty ) = ( open_clone( $source, $mapped, 0 ), '' );
    syscall( $call->{move_mount}, $tree, $empty, $cwd, $target, 0x4 ) == 0
        or fail("move_mount $target");
    syscall( $call->{close}, $tree );
}

# One component: neither a link nor a file is opened, and nothing above the folder is reached.
sub open_folder {
    my ( $at, $name ) = @_;
    # O_PATH, O_CLOEXEC
    my $flags = 0x200000 | 0x80000 | $call->{O_DIRECTORY} | $call->{O_NOFOLLOW};
    return syscall( $call->{openat}, $at, $name, $flags, 0 );
}

sub mount_volume {
    my ( $source, $root, $path, $owner, $ids ) = @_;
    my ( $tree, $empty ) = ( open_clone( $source, $ids eq 'mapped', 1 ), '' );
    my $at = open_folder( $cwd, $root );
    $at >= 0 or fail("open $root");
    # The name of this step is how its faults are told from others.
    my $what = 'bind path';
    for my $name ( split m{/}, substr $path, 1 ) {
        if ( $name eq '' || $name eq '.' || $name eq '..' ) { $! = 22; fail($what) }
        my $next = open_folder( $at, $name );
        if ( $next < 0 && $! == 2 ) {
            syscall( $call->{mkdirat}, $at, $name, 0755 ) == 0 or fail($what);
            syscall( $call->{fchownat}, $at, $name, $owner + 0, $owner + 0, 0x100 ) == 0
                or fail($what);
            $next = open_folder( $at, $name );
        }
        $next >= 0 or fail($what);
        syscall( $call->{close}, $at );
        $at = $next;
    }
    # MOVE_MOUNT_F_EMPTY_PATH, MOVE_MOUNT_T_EMPTY_PATH
    syscall( $call->{move_mount}, $tree, $empty, $at, $empty, 0x44 ) == 0 or fail('move_mount');
    syscall( $call->{close}, $_ ) for $tree, $at;
}

sub make_devices {
    my ($target) = @_;
    # MS_NOSUID, MS_NOEXEC; devices open in it.
    mount_call( 'tmpfs', $target, 'tmpfs', 0x2 | 0x8, 'mode=0755,size=64k' );
    # Numbers in the list of memory devices, major 1; the terminal of a process is another's.
    my %minor = ( null => 3, zero => 5, full => 7, random => 8, urandom => 9, tty => 0 );
    my $mask = umask 0;
    for my $name ( sort keys %minor ) {
        my ( $major, $minor ) = ( $name eq 'tty' ? 5 : 1, $minor{$name} );
        my $path = "$target/$name";
        syscall( $call->{mknodat}, $cwd, $path, 0020666, ( $major << 8 ) | $minor ) == 0
            or fail($path);
    }
    umask $mask;
}

sub isolate {
    syscall( $call->{unshare}, $new_mounts ) == 0 or fail('mount namespace');
    # MS_REC, MS_SLAVE: what the host unmounts goes here too, nothing goes the other way.
    mount_call( 'none', '/', '', 0x4000 | 0x80000, '' );
}

sub to_null {
    my ($descriptor) = @_;
    if ( $descriptor == 2 ) {
        # A copy that exec closes: a failing exec can still be told.
        open( my $copy, '>&', \*STDERR ) or fail('dup');
        $report = $copy;
    }
    # Not /dev/null: a runtime gives its standard streams to the container's root, and the container
    # sees the host's own null device, which its root could then close to everybody.
    my $name = 'null';
    my $file = syscall( $call->{memfd_create}, $name, 1 );
    $file >= 0 or fail('memfd');
    open( my $handle, '+<&=', $file ) or fail('memfd');
    my $opened =
          $descriptor == 0 ? open( STDIN, '<&', $handle )
        : $descriptor == 1 ? open( STDOUT, '>&', $handle )
        : open( STDERR, '>&', $handle );
    $opened or fail('memfd');
}

sub write_file {
    my ( $path, $text ) = @_;
    open( my $file, '>', $path ) or fail($path);
    # Of an empty text nothing is written, which is no fault.
    defined syswrite( $file, $text ) or fail($path);
}

sub enter_network {
    open( my $file, '<', $_[0] ) or fail( $_[0] );
    syscall( $call->{setns}, fileno $file, $new_network ) == 0 or fail("network $_[0]");
}

sub limit {
    my ( $resource, @wanted ) = @_;
    my ( $soft, $hard ) = map { $_ eq 'unlimited' ? ~0 : $_ + 0 } @wanted;
    my $limits = pack 'Q2', $soft, $hard;
    return if syscall( $call->{prlimit64}, 0, $resource + 0, $limits, 0 ) == 0;
    # EPERM: more than the hard limit, without the right to raise that.
    $! == 1 or fail("limit $resource");
    syscall( $call->{prlimit64}, 0, $resource + 0, 0, $limits ) == 0 or fail("limit $resource");
    my ( undef, $most ) = unpack 'Q2', $limits;
    $limits = pack 'Q2', map { $_ < $most ? $_ : $most } $soft, $hard;
    syscall( $call->{prlimit64}, 0, $resource + 0, $limits, 0 ) == 0 or fail("limit $resource");
}

sub be_normal {
    # PER_LINUX: addresses at random, and no other name of the processor.
    syscall( $call->{personality}, 0 ) >= 0 or fail('personality');
    # SCHED_FIFO, SCHED_RR: to others the starter may have given it on purpose, as a nice value.
    my ( $policy, $other ) = ( syscall( $call->{sched_getscheduler}, 0 ) & 0xFF, pack 'i', 0 );
    return unless $policy == 1 || $policy == 2;
    syscall( $call->{sched_setscheduler}, 0, 0, $other ) == 0 or fail('scheduler');
}

sub open_program {
    local $^F = 255;    # It survives exec: the program is found by its descriptor.
    open( $program, '<', $_[0] ) or fail( $_[0] );
}

sub become {
    # A text would be taken for an address.
    my $id = $_[0] + 0;
    syscall( $call->{setgroups}, 0, 0 ) == 0 or fail('setgroups');
    syscall( $call->{setresgid}, $id, $id, $id ) == 0 or fail('setresgid');
    syscall( $call->{setresuid}, $id, $id, $id ) == 0 or fail('setresuid');
    # PR_SET_NO_NEW_PRIVS
    syscall( $call->{prctl}, 38, 1, 0, 0, 0 ) == 0 or fail('prctl');
    # The kernel forgets whom it must die with when ids change.
    end_with_parent();
}

# By name: how many arguments it takes, and what it does.
my %step = (
    chdir   => [ 1, sub { chdir $_[0] or fail("chdir $_[0]") } ],
    listen  => [ 1, \&listen_at ],
    isolate => [ 0, \&isolate ],
    ids     => [ 3, \&hold_namespace ],
    hold    => [ 1, \&hold_at ],
    idmap   => [ 2, sub { clone_tree( @_, 1 ) } ],
    volume  => [ 5, \&mount_volume ],
    devices => [ 1, \&make_devices ],
    remap   => [ 4, \&remap_disk ],
    clone   => [ 2, sub { clone_tree( @_, 0 ) } ],
    bind    => [ 2, sub { mount_call( $_[0], $_[1], '', 0x1000, '' ) } ],
    mkdir   => [ 1, sub { mkdir( $_[0], 0755 ) or fail("mkdir $_[0]") } ],
    own     => [ 2, sub { chown( $_[1], $_[1], $_[0] ) == 1 or fail("chown $_[0]") } ],
    mount   => [ 3, sub { mount_call( $_[0], $_[1], $_[0], 0x4, $_[2] ) } ],
    attach  => [ 2, sub { mount_disk(@_) } ],
    reattach => [ 2, sub { mount_used_disk(@_) } ],
    store   => [ 2, sub { mount_store(@_) } ],
    grow    => [ 3, sub { grow_store(@_) } ],
    shared  => [ 2, sub { mount_volume_disk(@_) } ],
    unmount => [ 1, \&unmount ],
    enter   => [ 1, sub { write_file( $_[0], "$$" ) } ],
    netns   => [ 1, \&enter_network ],
    limit   => [ 3, \&limit ],
    normal  => [ 0, \&be_normal ],
    open    => [ 1, \&open_program ],
    become  => [ 1, \&become ],
    setenv  => [ 2, sub { $ENV{ $_[0] } = $_[1] } ],
    write   => [ 2, \&write_file ],
    opaque  => [ 1, \&mark_opaque ],
    null    => [ 1, \&to_null ],
    take    => [ 1, sub { load('launcher-images.pl'); start_taker(@_) } ],
    taken   => [ 1, sub { mount_taken(@_) } ],
    give    => [ 2, sub { load('launcher-images.pl'); give(@_) } ],
    await   => [ 0, sub { load('launcher-images.pl'); await_go() } ],
);

umask 0022;
while (@ARGV) {
    my $name = shift @ARGV;
    exit 0 if $name eq 'exit';
    if ( $name eq 'exec' ) {
        exec { $ARGV[0] } @ARGV or fail("exec $ARGV[0]");
    }
    if ( $name eq 'run' ) {
        exec { '/proc/self/fd/' . fileno $program } @ARGV or fail("run $ARGV[0]");
    }
    my $row = $step{$name} or complain("unknown step $name");
    my ( $count, $action ) = @$row;
    $action->( splice @ARGV, 0, $count );
}
