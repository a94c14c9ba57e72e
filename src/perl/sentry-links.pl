# The part of `sentry-relay.pl` that carries connections in frames, asks the daemon by one, and
# tells the time. It is loaded by `do` from there, with which it shares what is declared by `our`.

use v5.14;

our ( $call, %links );

# Frames, as the daemon has them: data is carried by both sides, what was read is confirmed.
my ( $data, $confirmed, $consumed, $nudge ) = ( 0, 1 << 24, 1, 2 );
my ( $max_queue, $max_frame ) = ( 65_536, 16_384 );

sub drop_link {
    my ($link) = @_;
    delete $links{ fileno $link->{$_} } for 'client', 'near';
    close $link->{$_} for 'client', 'near';
    $link->{ended} = 2;
}

# What can be done for a connection: 1 is to read, 2 to write.
sub wants {
    my ( $link, $number ) = @_;
    my $is_client = $number == fileno $link->{client};
    $link->{to_near} = '' if $link->{is_deaf};
    my $writes = $link->{ $is_client ? 'to_client' : 'to_near' } ne '' ? 2 : 0;
    return $writes if $link->{ended};
    # A program of the sandbox could send without an end, and read nothing.
    my $reads = $is_client ? length $link->{held} < $max_queue
        : length $link->{to_client} < $max_queue && length $link->{to_near} < 2 * $max_queue;
    return $writes | ( $reads ? 1 : 0 );
}

sub is_full {
    my ($link) = @_;
    return !$link->{ended} && length $link->{held} >= $max_queue;
}

# For what is waited for: the wall clock may be set, by hours.
sub seconds {
    my $time = "\0" x 16;
    # CLOCK_MONOTONIC
    syscall $call->{clock_gettime}, 1, $time;
    return unpack 'q', $time;
}

# EAGAIN and EINTR mean later.
sub is_later { return $! == 11 || $! == 4 }

sub flush_link {
    my ( $link, $name ) = @_;
    my $count = syswrite $link->{$name}, $link->{"to_$name"};
    if ( defined $count ) { substr $link->{"to_$name"}, 0, $count, '' }
    elsif ( is_later() )       { return }
    elsif ( $name eq 'client' ) { end_client($link) }
    # What it sent before its end is still read.
    else { $link->{is_deaf} = 1 }
    $link->{to_near} = '' if $link->{is_deaf};
}

# Sends what is held of a client as one frame.
sub send_held {
    my ($link) = @_;
    return if $link->{held} eq '';
    $link->{to_near} .= pack( 'N', length $link->{held} ) . $link->{held};
    $link->{held} = '';
    $link->{waits} = 1;
}

# Asks the daemon whether it answers, on a connection that it serves already: a new one takes three
# times as long. Nothing read is confirmed, to which a daemon of an older image does not answer. Who
# asks learns by the end of its own connection that there is none, or that it ended.
sub ask_daemon {
    my ($asker) = @_;
    my ($link) = grep { $_->{is_served} && !$_->{waits} && !$_->{asker} && !$_->{ended} }
        values %links;
    return unless $link;
    $link->{asker} = $asker;
    $link->{to_near} .= pack 'N', $confirmed;
    flush_link( $link, 'near' );
}

sub end_client {
    my ($link) = @_;
    send_held($link);
    $link->{ended} = 1;
    $link->{to_client} = '';
}

sub read_client {
    my ($link) = @_;
    my $held = length $link->{held};
    my $count = sysread $link->{client}, $link->{held}, $max_queue - $held, $held;
    return if !defined $count && is_later();
    if    ( !$count )          { end_client($link) }
    elsif ( !$link->{waits} ) { send_held($link) }
}

# Whether the client has gone, which cannot be read where no more may be held.
sub has_hung_up {
    my ($link) = @_;
    my $asked = pack 'l s s', fileno $link->{client}, 0, 0;
    my $no_time = pack 'q q', 0, 0;
    # POLLHUP
    return syscall( $call->{ppoll}, $asked, 1, $no_time, 0, 0 ) > 0
        && ( unpack 'x6 s', $asked ) & 16;
}

sub read_near {
    my ($link) = @_;
    my $count = sysread $link->{near}, $link->{read}, $max_queue, length $link->{read};
    return if !defined $count && is_later();
    if ( !$count ) { $link->{ended} = 1; $link->{to_near} = ''; return }
    $link->{to_near} .= pack 'N', $confirmed | $count;
    while ( length $link->{read} >= 4 ) {
        my $word = unpack 'N', $link->{read};
        my ( $kind, $size ) = ( $word >> 24, $word & 0xffffff );
        # Whoever is at the other end may be a program of the sandbox.
        return drop_link($link) if $kind > $nudge || $size > $max_frame;
        last if length $link->{read} < 4 + $size;
        $link->{to_client} .= substr $link->{read}, 4, $size if $kind == $data;
        substr $link->{read}, 0, 4 + $size, '';
        next unless $kind == $consumed;
        @$link{ 'waits', 'is_served' } = ( 0, 1 );
        my $asker = delete $link->{asker};
        syswrite $asker, "running\n" if $asker;
        send_held($link);
    }
}

sub serve_links {
    my ( $readable, $writable ) = @_;
    for my $number ( keys %links ) {
        my $link = $links{$number} or next;
        my $name = $number == fileno $link->{client} ? 'client' : 'near';
        flush_link( $link, $name ) if vec( $writable, $number, 1 );
        next if $link->{ended} || !vec( $readable, $number, 1 );
        if   ( $name eq 'client' ) { read_client($link) }
        else                       { read_near($link) }
    }
    # A copy: links go in the loop.
    for my $link ( my @all = values %links ) {
        end_client($link) if is_full($link) && has_hung_up($link);
        drop_link($link) if $link->{ended} == 1 && $link->{to_client} . $link->{to_near} eq '';
    }
}

1;
