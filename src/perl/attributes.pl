# Reads and writes extended attributes, whose system calls Node lacks, for the daemon in a
# sandbox; it answers request after request until its input ends. It loads no module: a sandbox
# may have none, or false ones. Its only argument is Node's name of the processor.
# Still needed: neither Node nor util-linux nor coreutils has these calls; getfattr and setfattr
# come with a package of their own and take one process for each file.
#
# Requests and replies begin with their length, a 32-bit number in network order. A request is a
# letter, then fields that end in NUL:
#       r paths                 read the metadata of each path
#       w path name value ...   make these the whole metadata of a path
#       c source target         give the second path the other attributes of the first
# A reply is an errno, then for each path how many names it has, then names and values, each after
# its length. Reading fails for no path: one that cannot be read has no names. Links are followed.
# Status 111: not started as it must be.

use v5.14;

my $numbers = do( $0 =~ s{[^/]*\z}{syscalls.pl}r ) or exit 111;
my $call = $numbers->( $ARGV[0] ) or exit 111;
my $prefix = 'user.e2b.';
my ( $e2big, $enodata, $enotsup ) = ( 7, 61, 95 );
# The kernel's own limit of a list and of a value; a reply is at most some hundred times as long.
my $limit = 65536;
my $most = 8388608;
my ( $list, $text ) = ( "\0" x $limit, "\0" x $limit );

sub take {
    my ( $size, $bytes ) = ( $_[0], '' );
    while ( length $bytes < $size ) {
        sysread( STDIN, $bytes, $size - length $bytes, length $bytes ) or exit 0;
    }
    return $bytes;
}

sub give {
    my $frame = pack 'N/a*', $_[0];
    while ( length $frame ) {
        my $count = syswrite STDOUT, $frame or exit 0;
        substr $frame, 0, $count, '';
    }
}

# Undefined when they cannot be read, with the reason in $!.
sub names {
    my $path = $_[0];
    my $size = syscall $call->{listxattr}, $path, $list, $limit;
    return undef if $size < 0;
    return [] if $size == 0;
    return [ grep { index( $_, $prefix ) == 0 } split /\0/, substr $list, 0, $size ];
}

sub pairs {
    my ( $path, $reply, $found ) = ( $_[0], '', 0 );
    for my $name ( @{ names($path) || [] } ) {
        my $size = syscall $call->{getxattr}, $path, $name, $text, $limit;
        next if $size < 0;
        $reply .= pack 'N/a* N/a*', substr( $name, length $prefix ), substr( $text, 0, $size );
        $found++;
    }
    return pack( 'N', $found ) . $reply;
}

sub replace {
    my ( $path, %wanted ) = @_;
    my $known = names($path);
    if ( !defined $known ) { return $! + 0 if %wanted || $! != $enotsup; return 0 }
    for my $name (@$known) {
        next if exists $wanted{ substr $name, length $prefix };
        syscall( $call->{removexattr}, $path, $name ) == 0 or $! == $enodata or return $! + 0;
    }
    for my $key ( sort keys %wanted ) {
        my ( $name, $value ) = ( $prefix . $key, $wanted{$key} );
        syscall( $call->{setxattr}, $path, $name, $value, length $value, 0 ) == 0 or return $! + 0;
    }
    return 0;
}

sub copy {
    my ( $source, $target ) = @_;
    my $size = syscall $call->{listxattr}, $source, $list, $limit;
    for my $name ( split /\0/, $size > 0 ? substr( $list, 0, $size ) : '' ) {
        next if index( $name, $prefix ) == 0 || $name eq 'security.capability';
        my $length = syscall $call->{getxattr}, $source, $name, $text, $limit;
        next if $length < 0;
        my $value = substr $text, 0, $length;
        next if syscall( $call->{setxattr}, $target, $name, $value, $length, 0 ) == 0;
        return $! + 0 if $! == 28 || $! == 122;
    }
    return 0;
}
while (1) {
    my $request = take( unpack 'N', take(4) );
    my @field = split /\0/, substr( $request, 1 ), -1;
    pop @field;
    my ( $errno, $reply ) = ( 0, '' );
    if ( substr( $request, 0, 1 ) eq 'w' ) {
        $errno = replace(@field);
        @field = ( $field[0] );
    }
    if ( substr( $request, 0, 1 ) eq 'c' ) {
        $errno = copy(@field);
        @field = ();
    }
    for my $path ( $errno ? () : @field ) {
        $reply .= pairs($path);
        next if length $reply <= $most;
        ( $errno, $reply ) = ( $e2big, '' );
        last;
    }
    give( pack( 'N', $errno ) . $reply );
}
