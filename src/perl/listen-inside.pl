# The first program of a sandbox with a kernel of its own, which inherits no listening socket:
# binds two on loopback, for clients and for the host, and becomes the command that is given. The
# sockets stay open with it, so no other program gets their ports when the daemon ends. Before that
# it mounts another /proc, which keeps less of ended processes. Arguments: Node's name of the
# processor, the two ports, the file for the secret, which comes by the environment and leaves it,
# and the command, which it becomes without the right to mount.
# Still needed: a program that hands sockets on must exist before the daemon, and outlive it.

use v5.14;

my $table = $0 =~ s{[^/]*\z}{syscalls.pl}r;
my $numbers = do $table or die "cannot load $table: ", $@ || $!, "\n";
my ( $arch, $public, $control, $secret_file, @command ) = @ARGV;
my $call = $numbers->($arch) or die "no support for $arch\n";

my $secret = delete $ENV{DAEMON_SECRET} // die "no secret\n";
umask 0077;
open( my $file, '>', $secret_file ) or die "$secret_file: $!\n";
syswrite( $file, $secret ) == length $secret or die "$secret_file: $!\n";
close $file;
umask 0022;

# Of each entry of /proc/PID that was opened the kernel keeps the process, 66 kB, after its end, for
# the 1,000 entries that were used last; the runtime hands no other number on.
my $kept_entries = 64;
my $boot_id = '/proc/sys/kernel/random/boot_id';
open( my $covered, '<', $boot_id ) or die "$boot_id: $!\n";
my $is_covered = ( stat $covered )[0] != ( stat '/proc' )[0];

sub mount_at {
    my ( $source, $path, $flags, $options ) = @_;
    my $type = 'proc';
    return syscall( $call->{mount}, $source, $path, $type, $flags, $options ) == 0;
}

# MS_NOSUID, MS_NODEV, MS_NOEXEC. Where that is refused the first one stays.
if ( mount_at( 'proc', '/proc', 2 | 4 | 8, "dentry_cache_limit=$kept_entries" ) && $is_covered ) {
    # MS_BIND
    mount_at( '/proc/self/fd/' . fileno $covered, $boot_id, 4096, '' ) or die "$boot_id: $!\n";
}
close $covered;
# PR_CAPBSET_DROP, CAP_SYS_ADMIN: what this program becomes, and all that it starts, cannot mount.
syscall( $call->{prctl}, 24, 21, 0, 0, 0 ) == 0 or die "right to mount: $!\n";

my @kept;
for my $port ( $public, $control ) {
    # Descriptors up to this number survive exec.
    local $^F = 3 + @kept;
    # AF_INET, SOCK_STREAM
    socket( my $socket, 2, 1, 0 ) or die "socket: $!\n";
    fileno($socket) == 3 + @kept or die "descriptor is taken\n";
    bind( $socket, pack( 'S n C4 x8', 2, $port, 127, 0, 0, 1 ) ) or die "bind $port: $!\n";
    listen( $socket, 512 ) or die "listen $port: $!\n";
    push @kept, $socket;
}

# SIG_IGN for the two that the C library keeps for itself, so that no shell can trap them; programs
# that use them set handlers of their own.
my $ignore = pack 'Q4', 1, 0, 0, 0;
syscall( $call->{rt_sigaction}, $_, $ignore, 0, 8 ) == 0 or die "signal $_: $!\n" for 32, 33;
exec { $command[0] } @command or die "$command[0]: $!\n";
