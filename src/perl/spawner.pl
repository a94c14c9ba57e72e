# Starts programs on pipes for the daemon in a sandbox, as the users that it names, and tells their
# ends, until its input ends. It loads no module: a sandbox may have none, or false ones. Its only
# argument is Node's name of the processor.
# Still needed: a start by Node copies the tables of Node's memory, needs a helper program that
# changes the user, since Node drops the user's groups, and joins the program by sockets, which
# cannot be opened by path; and Node knows the signals of no real-time number.
#
# Orders begin with their length, a 32-bit number in network order; then come a letter and fields
# that end in NUL:
#       s id pipes input directory uid gid groups count variables words
#                   start `words` there, with `count` variables; `pipes` is a directory that is made
#                   for named pipes, `input` is empty for a program that has none, `uid` where no
#                   other user is wanted
#       c id        close what was kept of that start: the daemon has opened its ends, and removes
#                   the directory
# Reports are lines: `ready` at first; then for each start `started ID PID`, or `failed ID ERRNO
# WHAT`; and for each end `exit PID N` or `signal PID N`. The pipes are called `in`, `out`, `err`.
# Status 111: not started as it must be.

use v5.14;

my $numbers = do( $0 =~ s{[^/]*\z}{syscalls.pl}r ) or exit 111;
my $call    = $numbers->( $ARGV[0] ) or exit 111;
my $load = do( $0 =~ s{[^/]*\z}{execute.pl}r ) or exit 111;
my ( $execute, $give_up ) = $load->($call);
my ( $set_mask, $mask_bytes, $no_hang, $pollin, $pollhup ) = ( 2, 8, 1, 1, 16 );
my ( $cwd, $pipe_mode, $any_end, $read_end, $write_end ) = ( -100, 0010600, 04002, 0, 1 );
my $read_bytes = 65536;
my ( $all, $all_but_child ) = map { pack 'Q', $_ } ~0, ~( 1 << 16 );
my $given = "\0" x $mask_bytes;
# Whatever the daemon did not mean to give.
syscall $call->{close_range}, 3, 0xffffffff, 0;
# What ends the daemon, or its process group, does not end this program before it has removed all.
# The end of a child waits until a look at all of them follows. What comes for a child before it has
# begun waits too: one that was ignored would be lost.
syscall( $call->{rt_sigprocmask}, $set_mask, $all, $given, $mask_bytes ) == 0 or exit 111;
$SIG{CHLD} = sub { };
setpgrp 0, 0 or exit 111;

# By the id of a start whose pipes the daemon has not opened yet: their directory, their names, the
# program, and handles that keep an end open for whoever opens the other one.
my %kept;

sub report {
    my $line = "$_[0]\n";
    while ( length $line ) {
        my $count = syswrite STDOUT, $line or leave();
        substr $line, 0, $count, q{};
    }
}

sub run {
    my ( $order, $end ) = @_;
    $SIG{CHLD} = 'DEFAULT';
    syscall( $call->{rt_sigprocmask}, $set_mask, $given, 0, $mask_bytes );
    my ( $in, $out, $err ) = @$end{qw(in out err)};
    open( STDERR, '>&', $err ) or $give_up->( $err, 'errors' );
    open( STDOUT, '>&', $out ) or $give_up->( $err, 'output' );
    my $has_input = $in ? open( STDIN, '<&', $in ) : open( STDIN, '<', '/dev/null' );
    $has_input or $give_up->( $err, 'input' );
    # Here, since perl keeps the memory of many fields.
    my @words = split /\0/, $order->{rest}, -1;
    pop @words;
    my @variables = splice @words, 0, $order->{count};
    $execute->( @$order{qw(user directory)}, \@variables, \@words );
}

# The program's ends of its pipes, whose user may open them again by path; none where one cannot be
# made, with the error left in $!.
sub make_pipes {
    my $order = $_[0];
    my ( $uid, $gid ) = @{ $order->{user} };
    my $kept = $kept{ $order->{id} } = { directory => $order->{pipes}, names => [], handles => [] };
    mkdir $order->{pipes}, 0700 or return;
    my %end;
    for my $name ( $order->{input} eq q{} ? () : 'in', 'out', 'err' ) {
        my $path = "$order->{pipes}/$name";
        syscall( $call->{mknodat}, $cwd, $path, $pipe_mode, 0 ) == 0 or return;
        push @{ $kept->{names} }, $path;
        # With both ends in one handle nobody waits for the other one.
        sysopen my $both, $path, $any_end or return;
        push @{ $kept->{handles} }, $both;
        sysopen $end{$name}, $path, $name eq 'in' ? $read_end : $write_end or return;
        $uid eq q{} or chown( $uid, $gid, $end{$name} ) or return;
    }
    return \%end;
}

sub clean {
    my $kept = delete $kept{ $_[0] } or return;
    unlink @{ $kept->{names} };
    rmdir $kept->{directory};
}

# Programs of which nobody has heard go with the daemon.
sub leave {
    for ( keys %kept ) {
        kill 'KILL', $kept{$_}{program} if $kept{$_}{program};
        clean($_);
    }
    exit;
}

# What failed, with the error in $!; without a directory that can be entered nothing is started.
sub start {
    my $order = $_[0];
    my $end   = make_pipes($order) or return 'pipe';
    chdir $order->{directory}      or return 'chdir';
    my $pid = fork;
    run( $order, $end ) if defined $pid && $pid == 0;
    my $error = $!;
    chdir '/';
    $! = $error;
    defined $pid or return 'fork';
    $kept{ $order->{id} }{program} = $pid;
    report("started $order->{id} $pid");
    return q{};
}

sub obey {
    my ( $letter, $rest ) = unpack 'a a*', $_[0];
    if ( $letter eq 'c' ) { delete $kept{ unpack 'Z*', $rest } }
    else {
        my ( %order, @user );
        ( @order{qw(id pipes input directory)}, @user[ 0 .. 2 ], @order{qw(count rest)} ) =
          unpack 'Z*' x 8 . 'a*', $rest;
        undef $rest;
        $order{user} = \@user;
        my $failed = start( \%order );
        return if $failed eq q{};
        report( join ' ', 'failed', $order{id}, $! + 0, $failed );
        clean( $order{id} );
    }
}

sub collect {
    while ( ( my $pid = waitpid -1, $no_hang ) > 0 ) {
        my $signal = $? & 127;
        report( $signal ? "signal $pid $signal" : "exit $pid " . ( $? >> 8 ) );
    }
}

my $orders = q{};
report('ready');
while (1) {
    my $wanted = pack 'l s s', 0, $pollin, 0;
    my $ready = syscall $call->{ppoll}, $wanted, 1, 0, $all_but_child, $mask_bytes;
    collect();
    next if $ready < 1;
    # Nobody is left who would read what the rest of the orders prints.
    last if unpack( 'x4 x2 s', $wanted ) & $pollhup;
    sysread( STDIN, $orders, $read_bytes, length $orders ) or last;
    while ( length $orders >= 4 && length $orders >= 4 + unpack 'N', $orders ) {
        obey( unpack 'N/a*', $orders );
        substr $orders, 0, 4 + unpack( 'N', $orders ), q{};
    }
    # Perl would keep the memory of the largest one.
    undef $orders if $orders eq q{};
    $orders //= q{};
}
leave();
