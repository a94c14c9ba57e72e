# Makes the kernel forget the connections of one address in a router, and what the outside knows of
# them: nobody would end them, and it keeps them for days. Arguments: Node's name of the processor,
# the file of the router's namespace, the address, and the file of the namespace outside unless that
# is the own one. perl-base alone must be enough.
# Still needed: nft and ip cannot do so, and conntrack(8) is on few machines.
# Status 111: a step failed, and standard error says which.

use v5.14;

my ( $bad_status, $new_network ) = ( 111, 0x40000000 );
my ( $get, $delete, $error, $done ) = ( 0x101, 0x102, 2, 3 );
my ( $tuple_orig, $tuple_reply, $filter, $nested ) = ( 1, 2, 25, 0x8000 );

sub complain { print STDERR "forget-connections: $_[0]\n"; exit $bad_status }
sub fail { complain("$_[0]: $!") }

my ( $arch, $router, $address, $outside ) = @ARGV;
my $table = $0 =~ s{[^/]*\z}{syscalls.pl}r;
my $numbers = do $table or complain( "cannot load $table: " . ( $@ || $! ) );
my $call = $numbers->($arch) or complain('no support for this processor');

sub enter {
    open( my $file, '<', $_[0] ) or fail( $_[0] );
    syscall( $call->{setns}, fileno $file, $new_network ) == 0 or fail("network $_[0]");
}

# AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER: it stays with the network in which it was made.
sub open_table {
    socket( my $socket, 16, 3, 12 ) or fail('netlink');
    return $socket;
}

sub attribute {
    my ( $type, $value ) = @_;
    my $padding = "\0" x ( -length($value) % 4 );
    return pack( 'S S', 4 + length $value, $type ) . $value . $padding;
}

sub attributes {
    my ($bytes) = @_;
    my %found;
    while ( length $bytes >= 4 ) {
        my ( $length, $type ) = unpack 'S S', $bytes;
        last if $length < 4 || $length > length $bytes;
        $found{ $type & 0x3fff } = substr $bytes, 4, $length - 4;
        my $step = ( $length + 3 ) & ~3;
        $bytes = $step < length $bytes ? substr( $bytes, $step ) : q{};
    }
    return \%found;
}

sub ask {
    my ( $socket, $type, $flags, $body ) = @_;
    # NLM_F_REQUEST; of IPv4.
    my $text = pack( 'L S S L L', 20 + length $body, $type, 1 | $flags, 0, 0 );
    defined send( $socket, $text . pack( 'C C S', 2, 0, 0 ) . $body, 0 ) or fail('send');
}

# Source and destination in each other's place: what is a reply here is sent first outside.
sub turned {
    my $parts = attributes( $_[0] );
    my ( $ip, $protocol ) = map { attributes( $parts->{$_} // q{} ) } 1, 2;
    my $ports = attribute( 2, $protocol->{3} ) . attribute( 3, $protocol->{2} );
    return attribute( 1 | $nested, attribute( 1, $ip->{2} ) . attribute( 2, $ip->{1} ) )
        . attribute( 2 | $nested, attribute( 1, $protocol->{1} ) . $ports );
}

enter($outside) if defined $outside;
my $there = open_table();
enter($router);
my $here = open_table();

my $source = pack 'C4', split /[.]/, $address;
my $wanted = attribute( $tuple_orig | $nested, attribute( 1 | $nested, attribute( 1, $source ) ) );
# CTA_FILTER_ORIG_FLAGS: by the source alone. NLM_F_DUMP.
ask( $here, $get, 0x300, $wanted . attribute( $filter | $nested, attribute( 1, pack 'L', 1 ) ) );
my @found;
READ: while ( sysread $here, my $bytes, 0x10000 ) {
    while ( length $bytes >= 16 ) {
        my ( $length, $type ) = unpack 'L S', $bytes;
        last READ if $type == $done;
        complain('the table cannot be read') if $type == $error || $length < 20;
        push @found, attributes( substr $bytes, 20, $length - 20 );
        $bytes = substr $bytes, ( $length + 3 ) & ~3;
    }
}
for my $entry (@found) {
    my ( $sent, $reply ) = @{$entry}{ $tuple_orig, $tuple_reply };
    # Kernels before 5.8 know no filter.
    next if attributes( attributes($sent)->{1} // q{} )->{1} ne $source;
    # What has gone meanwhile is answered by an error, which nobody reads.
    ask( $here, $delete, 0, attribute( $tuple_orig | $nested, $sent ) );
    ask( $there, $delete, 0, attribute( $tuple_orig | $nested, turned($reply) ) );
}
