# The part of `launcher.pl` that takes and gives images of memory that must be in no file of the
# host. It is loaded by `do` from there, with which it shares what is declared by `our`. A stream
# is a list of frames: type, number of the file, offset, length and so many bytes.
# Still needed: a runtime writes an image to files that it makes itself; files in memory would count
# as the container's, whose limit they would exceed.

use v5.14;

our ($call);

my ( $max_bytes, $max_files, $pages ) = ( 1048576, 16, 'pages.img' );
my $name_pattern = qr/\A[a-z0-9][\w.-]{0,63}\z/i;
my $frame = 'a L Q L';
my $frame_bytes = 17;
my ( $buffer_bytes, $priority ) = ( 64 * $max_bytes, -15 );

# The device of a file system that a child of this program serves, and the pipe that tells it that
# the file system is mounted.
my ( $device, $ready );

sub start_taker {
    my ($limit) = @_;
    open( $device, '+<', '/dev/fuse' ) or fail('/dev/fuse');
    pipe( my $waiting, $ready ) or fail('pipe');
    defined( my $pid = fork ) or fail('fork');
    if ( $pid == 0 ) {
        close $ready;
        # Other work of the machine must not hold up the paused container. SOL_SOCKET,
        # SO_SNDBUFFORCE.
        setsockopt( STDOUT, 1, 32, pack 'l', $buffer_bytes );
        setpriority( 0, 0, $priority );
        sysread $waiting, my $byte, 1;
        exit take( $limit + 0 );
    }
    # Frames alone are written there.
    open( STDOUT, '>&', \*STDERR ) or fail('dup');
}

# The file system ends with the mount namespace, which is that of the runtime alone.
sub mount_taken {
    my ($target) = @_;
    my $data = 'rootmode=40000,user_id=0,group_id=0,allow_other,fd=' . fileno $device;
    # MS_NOSUID, MS_NODEV, MS_NOEXEC
    mount_call( 'sandbox-mcp', $target, 'fuse', 0x2 | 0x4 | 0x8, $data );
    close $device;
    close $ready;
}

sub send_frame {
    my ( $type, $index, $offset, $bytes ) = @_;
    my $text = pack( $frame, $type, $index, $offset, length $bytes ) . $bytes;
    my $sent = 0;
    while ( $sent < length $text ) {
        my $count = syswrite STDOUT, $text, length($text) - $sent, $sent;
        # Nobody reads it any more: whoever writes the image gets a fault.
        exit 1 unless defined $count;
        $sent += $count;
    }
}

# Number, size and mode as the kernel's protocol has them.
sub attributes {
    my ( $node, $size ) = @_;
    my $mode = $node == 1 ? 0040700 : 0100600;
    return pack 'Q6 L10', $node, $size, 0, 0, 0, 0, 0, 0, 0, $mode, 1, 0, 0, 0, 4096, 0;
}

# Answers the kernel until the file system is gone. A file has the number of its node: the first one
# is 2. Files are made and written to; nothing is read back.
sub take {
    my ($limit) = @_;
    my ( %nodes, @sizes );
    my $written = 0;
    my $known = sub { attributes( $_[0], $sizes[ $_[0] ] // 0 ) };
    my $entry = sub { pack( 'Q4 L2', $_[0], 0, 0, 0, 0, 0 ) . $known->( $_[0] ) };
    my $attributes = sub { pack( 'Q L2', 0, 0, 0 ) . $known->( $_[0] ) };
    # By the numbers of the kernel's protocol: a text is the answer, a number the fault.
    my %answer = (
        # INIT, with FUSE_BIG_WRITES, FUSE_WRITEBACK_CACHE and FUSE_MAX_PAGES.
        26 => sub {
            my @words = ( 7, 31, 0, 0x20 | 0x10000 | 0x400000, 16, 12, $max_bytes, 1, 256 );
            return pack 'L4 S2 L2 S2 L8', @words, (0) x 9;
        },
        # LOOKUP
        1 => sub {
            my $node = $nodes{ unpack 'Z*', $_[1] };
            return defined $node ? $entry->($node) : 2;
        },
        # GETATTR, SETATTR
        3 => sub { $attributes->( $_[0] ) },
        4 => sub {
            my ( $node, $body ) = @_;
            my ( $valid, $size ) = unpack 'L x4 x8 Q', $body;
            if ( $valid & 0x8 ) {
                send_frame( 'T', $node - 2, $size, '' );
                $sizes[$node] = $size;
            }
            return $attributes->($node);
        },
        # CREATE. Runtimes write pages in large pieces, which go past the kernel's cache: in it they
        # would count as the container's. Other files they write byte by byte, which it gathers.
        35 => sub {
            my $name = unpack 'x16 Z*', $_[1];
            return 17 if exists $nodes{$name};
            return 22 if keys %nodes == $max_files || $name !~ $name_pattern;
            my $node = $nodes{$name} = 2 + keys %nodes;
            $sizes[$node] = 0;
            send_frame( 'F', $node - 2, 0, $name );
            return $entry->($node) . pack 'Q L2', $node, $name eq $pages ? 1 : 0, 0;
        },
        # WRITE
        16 => sub {
            my ( $node, $body ) = @_;
            my ( $offset, $size ) = unpack 'x8 Q L', $body;
            $written += $size;
            return 28 if $written > $limit || $offset + $size > $limit;
            send_frame( 'W', $node - 2, $offset, substr $body, 40, $size );
            my $end = $offset + $size;
            $sizes[$node] = $end if $end > $sizes[$node];
            return pack 'L2', $size, 0;
        },
        # OPENDIR; RELEASE, FSYNC, FLUSH, READDIR, RELEASEDIR, FSYNCDIR
        27 => sub { pack 'Q L2', 0, 0, 0 },
        map { $_ => sub { '' } } 18, 20, 25, 28, 29, 30,
    );
    while (1) {
        my $length = sysread $device, my $request, $max_bytes + 4096;
        # ENOENT, EINTR and EAGAIN: the request was taken back.
        next if !defined $length && ( $! == 2 || $! == 4 || $! == 11 );
        # ENODEV: unmounted.
        last if !defined $length && $! == 19;
        return 1 if ( $length // 0 ) < 40;
        my ( $opcode, $unique, $node ) = unpack 'x4 L Q2', $request;
        # FORGET, BATCH_FORGET and INTERRUPT have no answer.
        next if $opcode == 2 || $opcode == 42 || $opcode == 36;
        my $answer = $answer{$opcode} ? $answer{$opcode}->( $node, substr $request, 40 ) : -38;
        my $is_fault = $answer =~ /\A-?[0-9]{1,2}\z/;
        my ( $error, $body ) = $is_fault ? ( -abs $answer, '' ) : ( 0, $answer );
        syswrite $device, pack( 'L l Q', 16 + length $body, $error, $unique ) . $body;
    }
    send_frame( 'E', scalar keys %nodes, $written, '' );
    return 0;
}

# Makes a file system in memory, which is seen in this mount namespace alone, and waits until the
# service has put an image into it, by way of this process. What is in it is swapped out only where
# the kernel lacks the option.
sub give {
    my ( $target, $size ) = @_;
    my ( $type, $data ) = ( 'tmpfs', "mode=0700,size=$size" );
    my $unswapped = "$data,noswap";
    syscall( $call->{mount}, $type, $target, $type, 0x2 | 0x4 | 0x8, $unswapped ) == 0
        or mount_call( $type, $target, $type, 0x2 | 0x4 | 0x8, $data );
    syswrite STDOUT, "ready\n";
    await_go();
}

# A caller that has given up, or has died, says nothing.
sub await_go {
    my $text = '';
    while ( $text !~ /\n/ ) {
        sysread( STDIN, $text, 8, length $text ) or complain('was not told to go on');
    }
    $text eq "go\n" or complain('was not told to go on');
}

1;
