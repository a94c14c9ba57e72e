# Watches directories by inotify and passes on what the kernel says, byte for byte. It loads no
# module: a sandbox may have none, or false ones. Its only argument is Node's name of the
# processor.
#
# Every message begins with its length, a 32-bit number in network order, then a letter. In:   a
# id paths    watch these directories and list them; paths end in NUL, links are not followed
#       f id path     the same for one path whose links are followed
#       r wd ...      end these watches
# Out:  e bytes       events as read from the kernel
#       l id reports  for each path: errno, wd, count of entries, then the entries, each with a flag
#                     (d directory, f file with content, e everything else), the second of its last
#                     change, and its name after its length
#       d id          every event of before the listing was told by now

use v5.14;

# MODIFY ATTRIB MOVED_FROM MOVED_TO CREATE DELETE DELETE_SELF MOVE_SELF ONLYDIR EXCL_UNLINK
my $mask        = 0x2 | 0x4 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800 | 0x1000000 | 0x4000000;
my $dont_follow = 0x2000000;
my $close_exec_nonblock = 0x80800;
my $buffer_bytes        = 65_536;
# More entries than all watches together may hold: the reader refuses them.
my $most_entries = 200_000;
my $too_big      = 7;
my $interrupted  = 4;
my $try_again    = 11;

my $numbers = do( $0 =~ s{[^/]*\z}{syscalls.pl}r ) or exit 111;
my $call    = $numbers->( $ARGV[0] ) or exit 111;
my $fd = syscall $call->{inotify_init1}, $close_exec_nonblock;
exit 112 + ( $! == 24 ) if $fd < 0;
open my $kernel, '<&=', $fd or exit 114;
my $request_bytes = q{};

sub give {
    my $frame = pack 'N/a*', $_[0];
    while ( length $frame ) {
        my $count = syswrite STDOUT, $frame;
        if ( defined $count ) { substr $frame, 0, $count, q{} }
        elsif ( $! != $interrupted ) { exit 0 }
    }
    return;
}

# Passes on everything that the kernel has queued by now.
sub drain {
    while ( my $count = sysread $kernel, my $bytes, $buffer_bytes ) {
        give( 'e' . $bytes );
    }
    return;
}

sub list {
    my ($path) = @_;
    my ( $entries, $found ) = ( q{}, 0 );
    opendir my $directory, $path or return ( $! + 0, 0, q{} );
    while ( defined( my $name = readdir $directory ) ) {
        next if $name eq q{.} || $name eq q{..};
        return ( $too_big, 0, q{} ) if ++$found > $most_entries;
        my @stat = lstat "$path/$name";
        # What has gone since is told by the kernel.
        if ( !@stat ) { $found--; next }
        my $flag = -d _ ? 'd' : -f _ && $stat[7] > 0 ? 'f' : 'e';
        $entries .= pack 'a N N/a*', $flag, $stat[10] & 0xffffffff, $name;
    }
    return ( 0, $found, $entries );
}

sub watch {
    my ( $path, $flags ) = @_;
    my $wd = syscall $call->{inotify_add_watch}, $fd, $path, $flags;
    return pack 'N N N', $! + 0, 0, 0 if $wd < 0;
    my ( $errno, $found, $entries ) = list($path);
    return pack( 'N N N', $errno, $wd, $found ) . $entries;
}

sub serve {
    my ($request) = @_;
    my $letter = substr $request, 0, 1;
    if ( $letter eq 'r' ) {
        syscall $call->{inotify_rm_watch}, $fd, $_ for unpack 'x N*', $request;
        return;
    }
    my ( $id, $paths ) = unpack 'x a4 a*', $request;
    my $flags = $letter eq 'f' ? $mask : $mask | $dont_follow;
    my $reports = join q{}, map { watch( $_, $flags ) } split /\0/, $paths;
    give( 'l' . $id . $reports );
    drain();
    give( 'd' . $id );
    return;
}

# Serves every whole request that has come; ends with its input.
sub take {
    my $count = sysread STDIN, $request_bytes, $buffer_bytes, length $request_bytes;
    if ( !defined $count ) { return if $! == $interrupted || $! == $try_again; exit 0 }
    exit 0 if $count == 0;
    while ( length $request_bytes >= 4 ) {
        my $end = 4 + unpack 'N', $request_bytes;
        last if length $request_bytes < $end;
        my $request = substr $request_bytes, 4, $end - 4;
        substr $request_bytes, 0, $end, q{};
        serve($request);
    }
    return;
}

while (1) {
    my $wanted = q{};
    vec( $wanted, fileno STDIN,   1 ) = 1;
    vec( $wanted, fileno $kernel, 1 ) = 1;
    next if select( my $ready = $wanted, undef, undef, undef ) < 0;
    drain() if vec $ready, fileno $kernel, 1;
    take()  if vec $ready, fileno STDIN,   1;
}
