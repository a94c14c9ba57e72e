# The first program of a sandbox with a kernel of its own, which inherits no listening socket:
# binds two on loopback, for clients and for the host, and becomes the command that is given. The
# sockets stay open with it, so no other program gets their ports when the daemon ends. Arguments:
# Node's name of the processor, the two ports, the file for the secret, which comes by the
# environment and leaves it, and the command.
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
