# Runs a program in a network namespace of its own, from which nothing is reached but sockets of the
# service: it listens there on loopback, and joins each connection to the unix socket of its port.
# Arguments: Node's name of the processor, for each listener its port and the path of its socket as
# PORT=PATH, `--`, the program and its arguments. One listener has port 0, which becomes a free
# one: it is the proxy that the environment of the program names. It ends as that ends, and
# the program ends with it.
# Still needed: unshare of util-linux makes the namespace, but then nothing leads out of it: Node
# can neither listen in another namespace nor take a descriptor of a process there.

use v5.14;

my $table = $0 =~ s{[^/]*\z}{syscalls.pl}r;
my $numbers = do $table or die "cannot load $table: ", $@ || $!, "\n";
my ( $arch, @words ) = @ARGV;
my $call = $numbers->($arch) or die "no support for $arch\n";
my ( $max_links, $chunk, $eintr, $eagain ) = ( 64, 65536, 4, 11 );

my @places;
while (@words) {
    my $word = shift @words;
    last if $word eq '--';
    $word =~ /\A(\d{1,5})=(.+)\z/s or die "no listener: $word\n";
    push @places, [ $1, $2 ];
}
@places && @words or die "no listener or no program\n";

# CLONE_NEWNET
syscall( $call->{unshare}, 0x40000000 ) == 0 or die "network namespace: $!\n";
# AF_INET, SOCK_STREAM
socket( my $any, 2, 1, 0 ) or die "socket: $!\n";
# SIOCSIFFLAGS, IFF_UP
my $up = pack 'a16 s x22', 'lo', 1;
ioctl( $any, 0x8914, $up ) or die "loopback: $!\n";
close $any;

# By descriptor: the socket and the path that its connections are joined to.
my %listeners;

sub listen_at {
    my ( $family, $address, $path ) = @_;
    socket( my $socket, $family, 1, 0 ) or return;
    bind( $socket, $address ) && listen( $socket, $max_links ) or return;
    $listeners{ fileno $socket } = [ $socket, $path ];
    return $socket;
}

my $proxy_port;
# The free port is taken last: it must be none of the others.
for my $place ( sort { $b->[0] <=> $a->[0] } @places ) {
    my ( $port, $path ) = @$place;
    # Every address of loopback.
    my $socket = listen_at( 2, pack( 'S n x12', 2, $port ), $path ) or die "listen $port: $!\n";
    $proxy_port = unpack 'x2 n', getsockname $socket if !$port;
    # AF_INET6, ::1; a kernel without it has no such address either.
    listen_at( 10, pack( 'S n x4 x15 C x4', 10, $port, 1 ), $path ) if $port;
}

my $parent = $$;
defined( my $pid = fork ) or die "fork: $!\n";
if ( $pid == 0 ) {
    # PR_SET_PDEATHSIG, SIGKILL
    syscall( $call->{prctl}, 1, 9, 0, 0, 0 ) == 0 && getppid == $parent or exit 111;
    delete @ENV{qw(NO_PROXY no_proxy ALL_PROXY all_proxy)};
    $ENV{$_} = "http://127.0.0.1:$proxy_port" for qw(HTTP_PROXY HTTPS_PROXY http_proxy https_proxy);
    exec { $words[0] } @words or die "$words[0]: $!\n";
}
my $pidfd = syscall( $call->{pidfd_open}, $pid, 0 );
$pidfd >= 0 or die "pidfd: $!\n";
$SIG{PIPE} = 'IGNORE';

# Both ends of each connection by descriptor: socket, the other end, what is to be written, and
# whether it has nothing more to say (is_over) or to hear (is_shut).
my %ends;

sub join_ends {
    my ( $listener, $path ) = @_;
    accept( my $client, $listener ) or return;
    # AF_UNIX
    socket( my $socket, 1, 1, 0 ) or return;
    connect( $socket, pack( 'S Z*', 1, $path ) ) or return;
    my ( $near, $far ) = map { { socket => $_, out => '', is_over => 0, is_shut => 0 } }
        $client, $socket;
    ( $near->{other}, $far->{other} ) = ( $far, $near );
    for my $end ( $near, $far ) {
        # F_SETFL, O_NONBLOCK
        fcntl $end->{socket}, 4, 2048;
        $ends{ fileno $end->{socket} } = $end;
    }
}

sub part {
    my ($end) = @_;
    for my $one ( $end, $end->{other} ) {
        delete $ends{ fileno $one->{socket} };
        close $one->{socket};
    }
    delete $end->{other}{other};
    delete $end->{other};
}

# What has come from an end is written to the other one before more is read.
sub take_from {
    my ($end) = @_;
    my $count = sysread $end->{socket}, $end->{other}{out}, $chunk;
    return if $count || !defined $count && ( $! == $eagain || $! == $eintr );
    return part($end) unless defined $count;
    $end->{is_over} = 1;
    give_to( $end->{other} );
}

sub give_to {
    my ($end) = @_;
    if ( length $end->{out} ) {
        my $count = syswrite $end->{socket}, $end->{out};
        return part($end) unless defined $count || $! == $eagain || $! == $eintr;
        substr $end->{out}, 0, $count // 0, '';
    }
    return if length $end->{out} || !$end->{other}{is_over} || $end->{is_shut};
    shutdown $end->{socket}, 1;
    $end->{is_shut} = 1;
    part($end) if $end->{is_over} && $end->{other}{is_shut};
}

for ( ; ; ) {
    my ( $in, $out ) = ( '', '' );
    vec( $in, $pidfd, 1 ) = 1;
    if ( keys %ends < 2 * $max_links ) { vec( $in, $_, 1 ) = 1 for keys %listeners }
    for my $number ( keys %ends ) {
        my $end = $ends{$number};
        vec( $in, $number, 1 ) = 1 unless $end->{is_over} || length $end->{other}{out};
        vec( $out, $number, 1 ) = 1 if length $end->{out};
    }
    if ( select( $in, $out, undef, undef ) < 0 ) {
        next if $! == $eintr;
        die "select: $!\n";
    }
    last if vec( $in, $pidfd, 1 );
    for my $number ( keys %ends ) {
        give_to( $ends{$number} ) if vec( $out, $number, 1 ) && $ends{$number};
        take_from( $ends{$number} ) if vec( $in, $number, 1 ) && $ends{$number};
    }
    for my $number ( keys %listeners ) {
        join_ends( @{ $listeners{$number} } ) if vec( $in, $number, 1 );
    }
}
waitpid( $pid, 0 );
exit( $? & 127 ? 128 + ( $? & 127 ) : $? >> 8 );
