# The part of `copier.pl` that copies one entry: its bytes, its attributes, what it is. It is
# loaded by `do` from there, with which it shares what is declared by `our`.
#
# The pages of a file are written back before it is copied, so that a later write through a
# mapping gets a time of its own. Long runs of data are written past the cache, and read past it
# where it has them not: they are on the disk when the copy ends, and the memory of the machine
# stays with those that use it.

use v5.14;

our ( $call, $is_strict, $moved, $cwd, $link_itself );

my ( $eperm, $enxio, $enodata, $enotsup ) = ( 1, 6, 61, 95 );
my ( $data, $hole ) = ( 3, 4 );
my ( $chunk, $page, $long ) = ( 4 << 20, 4096, 1 << 20 );
# The kernel's own limit of a list and of a value.
my $limit = 65536;
my ( $list, $value ) = ( "\0" x $limit, "\0" x $limit );
my $memory = syscall $call->{mmap}, 0, $chunk, 3, 0x22, -1, 0;
$memory > 0 or fail('memory');
my $can_clone = 1;

sub copy_attributes {
    my ( $name, $target, $is_new ) = @_;
    my $size = syscall $call->{llistxattr}, $name, $list, $limit;
    trouble("attributes of $target") if $size < 0 && $! != $enotsup;
    my @names = $size > 0 ? split( /\0/, substr $list, 0, $size ) : ();
    my %kept = map { $_ => 1 } @names;
    unless ($is_new) {
        my $old = syscall $call->{llistxattr}, $target, $list, $limit;
        for my $extra ( grep { !$kept{$_} } $old > 0 ? split( /\0/, substr $list, 0, $old ) : () ) {
            syscall $call->{lremovexattr}, $target, $extra;
        }
    }
    for my $key (@names) {
        my $length = syscall $call->{lgetxattr}, $name, $key, $value, $limit;
        if ( $length < 0 ) {
            trouble("attribute of $target") unless $! == $enodata || $! == $enotsup;
            next;
        }
        my $text = substr $value, 0, $length;
        next if syscall( $call->{lsetxattr}, $target, $key, $text, $length, 0 ) == 0;
        # What the overlay reads must be there; who may not write the others does without them.
        trouble("attribute of $target")
            if $key =~ /\.overlay\./ || ( $! != $eperm && $! != $enotsup );
    }
}

sub dress {
    my ( $name, $target, $entry, $is_new ) = @_;
    syscall( $call->{fchownat}, $cwd, $target, $entry->{uid}, $entry->{gid}, $link_itself ) == 0
        or trouble("owner of $target");
    if ( $entry->{kind} != 0120000 ) {
        chmod( $entry->{mode} & 07777, $target ) or trouble("mode of $target");
    }
    copy_attributes( $name, $target, $is_new );
    my $times = pack 'q q q q', @{$entry}{qw(as an ms mn)};
    syscall( $call->{utimensat}, $cwd, $target, $times, $link_itself ) == 0
        or trouble("times of $target");
}

sub write_all {
    my ( $file, $from, $count, $at ) = @_;
    my $descriptor = fileno $file;
    while ( $count > 0 ) {
        my $done = syscall $call->{pwrite64}, $descriptor, $from, $count, $at;
        return 0 if $done <= 0;
        ( $from, $count, $at ) = ( $from + $done, $count - $done, $at + $done );
    }
    return 1;
}

# What the cache has, from there; what it has not, past it: its pages stay with those that use them.
sub read_part {
    my ( $in, $past, $wanted, $at ) = @_;
    if ( $past && $at % $page == 0 ) {
        my $place = pack 'Q2', $memory, $wanted;
        # RWF_NOWAIT
        my $count = syscall $call->{preadv2}, fileno($in), $place, 1, $at, 0, 8;
        $count -= $count % $page if $count > 0 && $count < $wanted;
        return $count if $count > 0;
        $count = syscall $call->{pread64}, fileno($past), $memory, $wanted + -$wanted % $page, $at;
        return $count < $wanted ? $count : $wanted if $count > 0;
    }
    my $count = syscall $call->{pread64}, fileno($in), $memory, $wanted, $at;
    return $count >= 0 ? $count : trouble('read');
}

sub copy_run {
    my ( $in, $past, $out, $direct, $at, $end ) = @_;
    while ( $at < $end ) {
        my $count = read_part( $in, $past, $end - $at < $chunk ? $end - $at : $chunk, $at );
        last if $count == 0;
        my $whole = $direct && $at % $page == 0 ? $count - $count % $page : 0;
        $whole = 0 if $whole && !write_all( $direct, $memory, $whole, $at );
        if ( $whole < $count ) {
            write_all( $out, $memory + $whole, $count - $whole, $at + $whole ) or trouble('write');
        }
        $at += $count;
        $moved += $count;
    }
}

sub copy_bytes {
    my ( $name, $target, $entry ) = @_;
    # A fifo in its place must not make us wait.
    sysopen( my $in, $name, $call->{O_NOFOLLOW} | 0x800 ) or trouble("read $target");
    -f $in && ( stat _ )[1] == $entry->{ino} or do { $! = 116; trouble($target) };
    sysopen( my $out, $target, 0x1 | 0x40 | 0x80, 0600 ) or trouble("write $target");
    unless ($is_strict) { syscall $call->{sync_file_range}, fileno($in), 0, 0, 7 }
    if ($can_clone) {
        return if ioctl $out, 0x40049409, fileno $in;
        $can_clone = 0;
    }
    my ( $direct, $past, $at ) = ( undef, undef, 0 );
    while ( $at < $entry->{size} ) {
        my $start = sysseek $in, $at, $data;
        last if !$start && $! == $enxio;
        $start = $start ? $start + 0 : $at;
        my $end = sysseek $in, $start, $hole;
        $end = $entry->{size} if !$end || $end > $entry->{size};
        last if $start >= $end;
        if ( !$direct && $end - $start >= $long ) {
            sysopen( $direct, $target, 0x1 | $call->{O_DIRECT} ) or undef $direct;
            if ( !$is_strict ) {
                sysopen( $past, $name, $call->{O_NOFOLLOW} | $call->{O_DIRECT} | 0x800 )
                    or undef $past;
            }
        }
        copy_run( $in, $past, $out, $direct, $start, $end );
        $at = $end;
    }
    truncate( $out, $entry->{size} ) or trouble("size of $target");
    close($out) or trouble("write $target");
}

sub copy_leaf {
    my ( $name, $target, $entry ) = @_;
    my $kind = $entry->{kind};
    if ( $kind == 0100000 ) {
        copy_bytes( $name, $target, $entry );
    }
    elsif ( $kind == 0120000 ) {
        my $to = readlink $name;
        defined $to && symlink( $to, $target ) or trouble("link $target");
    }
    else {
        my ( $major, $minor ) = @{$entry}{qw(major minor)};
        my $device = ( ( $major & 0xfff ) << 8 ) | ( $minor & 0xff ) | ( ( $minor & ~0xff ) << 12 );
        syscall( $call->{mknodat}, $cwd, $target, $entry->{mode}, $device ) == 0
            or trouble("make $target");
    }
    dress( $name, $target, $entry, 1 );
}

1;
