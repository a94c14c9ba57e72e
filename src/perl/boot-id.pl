# Binds a file with an id over /proc/sys/kernel/random/boot_id of a container that was just started.
# Arguments: Node's name of the processor, the pid of the caller, the pid of the container's first
# process, a folder for the file, and the id. The file lies in memory, in a mount namespace of this
# program that ends with it, so the container's table of mounts shows no path of the host. It is
# killed when its caller dies.
# Still needed: a runtime refuses mounts below /proc (runc), and mount of util-linux (2.38 is in
# use) cannot carry a file from one mount namespace into another.
# Status 111: a step failed, and standard error says which.

use v5.14;

my ( $new_mounts, $bad_status, $cwd, $empty ) = ( 0x20000, 111, -100, '' );

sub complain { print STDERR "boot-id: $_[0]\n"; exit $bad_status }
sub fail { complain("$_[0]: $!") }

my $table = $0 =~ s{[^/]*\z}{syscalls.pl}r;
my $numbers = do $table or complain( "cannot load $table: " . ( $@ || $! ) );
my ( $arch, $parent, $pid, $folder, $id ) = @ARGV;
my $call = $numbers->($arch) or complain("no support for $arch");
$id =~ /\A[0-9a-f-]{36}\z/ or complain('not an id');

# A call takes variables only.
sub mount_call {
    my ( $source, $target, $type, $flags, $data ) = @_;
    syscall( $call->{mount}, $source, $target, $type, $flags, $data ) == 0 or fail("mount $target");
}

# PR_SET_PDEATHSIG; the caller may have died before that call.
syscall( $call->{prctl}, 1, 9 ) == 0 or fail('prctl');
getppid() == $parent or exit $bad_status;

open( my $container, '<', "/proc/$pid/ns/mnt" ) or fail('mount namespace of the container');
syscall( $call->{unshare}, $new_mounts ) == 0 or fail('mount namespace');
# MS_REC, MS_SLAVE
mount_call( 'none', '/', '', 0x4000 | 0x80000, '' );
# MS_NOSUID, MS_NODEV, MS_NOEXEC
mount_call( 'tmpfs', $folder, 'tmpfs', 0x2 | 0x4 | 0x8, 'mode=0755,size=4k' );
my $path = "$folder/boot_id";
umask 0022;
open( my $file, '>', $path ) or fail($path);
syswrite( $file, "$id\n" ) or fail($path);
close $file or fail($path);

# OPEN_TREE_CLONE, OPEN_TREE_CLOEXEC
my $tree = syscall( $call->{open_tree}, $cwd, $path, 0x1 | 0x80000 );
$tree >= 0 or fail('open_tree');
# AT_EMPTY_PATH; MOUNT_ATTR_RDONLY, NOSUID, NODEV, NOEXEC
my $attributes = pack 'Q4', 0xF, 0, 0, 0;
syscall( $call->{mount_setattr}, $tree, $empty, 0x1000, $attributes, 32 ) == 0
    or fail('mount_setattr');
syscall( $call->{setns}, fileno $container, $new_mounts ) == 0 or fail('setns');
# MOVE_MOUNT_F_EMPTY_PATH: a link at the end of the target is not followed.
my $target = '/proc/sys/kernel/random/boot_id';
syscall( $call->{move_mount}, $tree, $empty, $cwd, $target, 0x4 ) == 0 or fail('move_mount');
