# Makes the system calls of a terminal, which Node lacks, for the daemon in a sandbox: it opens
# the terminal, starts the command on it, and carries bytes both ways until the terminal has no
# more to say. It loads no module: a sandbox may have none, or false ones. Its only argument is
# Node's name of the processor.
# Still needed: script(1) of util-linux changes neither size nor identity, and hides the pid and
# the signal that ended the command.
#
# Descriptors: 0 what is typed, 1 what is shown, 3 orders, 4 reports. Orders begin with one record
# (its length, then fields that end in NUL) and go on with sizes of four bytes; their end hangs
# the terminal up. Reports are lines: `pid N`, then `exit N` or `signal N`; or `fail ERRNO WHAT`
# alone.
# Status 111: it failed.

use v5.14;

my ( $tiocswinsz, $tiocsctty, $tiocsptlck, $tiocgptpeer ) = ( 0x5414, 0x540E, 0x40045431, 0x5441 );
my $tiocgptn = 0x80045430;
my ( $o_rdwr, $o_noctty, $o_nonblock, $f_setfl ) = ( 2, 0400, 04000, 4 );
my ( $eintr, $eagain, $enosys ) = ( 4, 11, 38 );
# One read gives 4 KiB at most; so much is gathered before it is passed on.
my $full = 16384;

open( my $orders, '<&=', 3 ) or exit 111;
open( my $report, '>&=', 4 ) or exit 111;
sub fail { my $code = $! + 0; syswrite $report, "fail $code $_[0]\n"; exit 111 }
my $numbers = do( $0 =~ s{[^/]*\z}{syscalls.pl}r ) or fail('table of system calls');
my $call = $numbers->( $ARGV[0] ) or fail('architecture');
my $load = do( $0 =~ s{[^/]*\z}{execute.pl}r ) or fail('execution');
my ( $execute, $give_up ) = $load->($call);

sub take {
    my ( $size, $bytes ) = ( $_[0], '' );
    while ( length $bytes < $size ) {
        sysread( $orders, $bytes, $size - length $bytes, length $bytes ) or exit 0;
    }
    return $bytes;
}
my @field = split /\0/, take( unpack 'N', take(4) ), -1;
pop @field;
my ( $cols, $rows, $folder ) = splice @field, 0, 3;
my @user = splice @field, 0, 3;
my @variable = splice @field, 0, shift @field;

sysopen( my $master, '/dev/ptmx', $o_rdwr | $o_noctty | $o_nonblock ) or fail('open /dev/ptmx');
my $zero = pack 'i', 0;
ioctl( $master, $tiocsptlck, $zero ) or fail('unlock terminal');
my $peer = ioctl( $master, $tiocgptpeer, $o_rdwr | $o_noctty );
my $slave = $peer ? open_peer($peer) : open_by_name();

sub open_peer {
    open( my $handle, '+<&=', $_[0] ) or fail('open terminal');
    return $handle;
}

# A kernel that lacks the call above, as gVisor's of 2024, tells the number of the terminal.
sub open_by_name {
    my $number = pack 'i', 0;
    ioctl( $master, $tiocgptn, $number ) or fail('number of terminal');
    my $path = '/dev/pts/' . unpack 'i', $number;
    sysopen( my $handle, $path, $o_rdwr | $o_noctty ) or fail('open terminal');
    return $handle;
}

sub resize {
    my $size = pack 'S4', $_[1], $_[0], 0, 0;
    ioctl( $master, $tiocswinsz, $size );
}
resize( $cols, $rows ) or fail('size of terminal');
$user[0] eq '' or chown( $user[0], -1, $slave ) or fail('owner of terminal');
chdir $folder or fail('chdir');

sub run {
    syscall( $call->{setsid} ) >= 0 or $give_up->( $slave, 'session' );
    ioctl( $slave, $tiocsctty, 0 ) or $give_up->( $slave, 'control of terminal' );
    open( STDIN, '<&', $slave ) && open( STDOUT, '>&', $slave ) && open( STDERR, '>&', $slave )
        or $give_up->( $slave, 'terminal' );
    $execute->( \@user, $folder, \@variable, \@field );
}
defined( my $pid = fork ) or fail('fork');
run() if $pid == 0;
my $pidfd = syscall( $call->{pidfd_open}, $pid, 0 );
# A kernel that lacks that call is asked again and again: what wakes it first is the terminal's end.
my $is_told = $pidfd >= 0;
$is_told || $! == $enosys or fail('pidfd');
my $patience = $is_told ? undef : 0.1;
close $slave;
chdir '/';
syswrite $report, "pid $pid\n";

$SIG{PIPE} = 'IGNORE';
fcntl( STDOUT, $f_setfl, $o_nonblock );
my $terminal = fileno $master;
my ( $typed, $shown, $sizes ) = ( '', '', '' );
my ( $typing, $open, $running ) = ( 1, 1, 1 );
while ( $running || $open || length $shown ) {
    my ( $in, $out ) = ( '', '' );
    vec( $in, 3, 1 ) = 1;
    vec( $in, 0, 1 ) = 1 if $typing && $typed eq '';
    vec( $in, $terminal, 1 ) = 1 if $open && length $shown < $full;
    vec( $in, $pidfd, 1 ) = 1 if $running && $is_told;
    vec( $out, 1, 1 ) = 1 if length $shown;
    vec( $out, $terminal, 1 ) = 1 if $open && length $typed;
    my $ready = select $in, $out, undef, $running ? $patience : undef;
    if ( $ready < 0 ) {
        next if $! == $eintr;
        exit 111;
    }
    # Sizes first: what was typed after a change must find it done.
    if ( vec( $in, 3, 1 ) ) {
        sysread( $orders, $sizes, 4096, length $sizes ) or last;
        resize( unpack 'nn', substr $sizes, 0, 4, '' ) while length $sizes >= 4;
    }
    if ( vec( $in, 0, 1 ) ) {
        sysread( STDIN, $typed, 65536 ) or $typing = 0;
    }
    if ( length $typed && $open ) {
        my $count = syswrite $master, $typed;
        if ( defined $count ) { substr $typed, 0, $count, '' }
        elsif ( $! != $eagain ) { $typed = '' }
    }
    if ( vec( $in, $terminal, 1 ) ) {
        while ( length $shown < $full ) {
            my $count = sysread $master, $shown, $full - length $shown, length $shown;
            next if $count;
            # Nothing for now; or, with any other answer, nobody holds the terminal any more.
            $open = 0 unless !defined $count && $! == $eagain;
            last;
        }
    }
    if ( length $shown ) {
        my $count = syswrite STDOUT, $shown;
        if ( defined $count ) { substr $shown, 0, $count, '' }
        elsif ( $! != $eagain ) { last }
    }
    # WNOHANG
    if ( $running && ( !$is_told || vec( $in, $pidfd, 1 ) ) && waitpid( $pid, 1 ) == $pid ) {
        $running = 0;
        syswrite $report, $? & 127 ? 'signal ' . ( $? & 127 ) . "\n" : 'exit ' . ( $? >> 8 ) . "\n";
    }
}
