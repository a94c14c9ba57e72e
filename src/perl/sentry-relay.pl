# The host's side of the listeners of a sandbox with a kernel of its own. It inherits three of
# them: 3 for clients, 4 for the host, 5 for orders. Each connection to the first two is carried, in
# frames, by one that is handed to the sandbox's kernel, which joins it to a port inside; an order
# (pause, resume, state, ask) is a line, answered by a line. Arguments: Node's name of the
# processor, the sandbox's id, the ports of 3 and 4, a file for its number. It runs in a session of
# its own, in the sandbox's cgroup, and ends with the sandbox: the kernel closes the connection that
# is kept to it. SIGUSR1 pauses. Its standard input is the secret of the daemon.
# Still needed: Node hands no descriptor to another process, and the sandbox outlives the service.

use v5.14;

my ( $arch, $id, @ports ) = @ARGV;
my $number_file = pop @ports;
my $table = $0 =~ s{[^/]*\z}{syscalls.pl}r;
my $numbers = do $table or die "cannot load $table: ", $@ || $!, "\n";
our $call = $numbers->($arch) or die "no support for $arch\n";
my $path = $0 =~ s{[^/]*\z}{sentry-links.pl}r;
do $path or die "cannot load $path: ", $@ || $!, "\n";
$id =~ /\A[a-z0-9]{1,64}\z/ or die "no id: $id\n";

# A sandbox that does not answer within this time does not get the connection, in seconds.
my $patience = 10;
# A daemon that does not answer within this time after its start is left to its callers.
my $start_patience = 40;
my ( $max_calls, $max_reply, $max_order ) = ( 512, 4096, 64 );
my $kernel = "runsc-$id.sock";

my @listeners;
for my $number ( 3 .. 5 ) {
    open( my $listener, '+<&=', $number ) or die "descriptor $number: $!\n";
    push @listeners, $listener;
}

# The kernel's calls that are not answered yet, by descriptor: its socket, the connections that
# wait, what was answered, and when it is given up.
my %calls;
# The connections of a client and to the kernel, by the descriptors of both, with what is still to
# be written to each, what was read of the kernel's, what of the client's is held while the daemon
# has not consumed what it was sent, and whether one has ended.
our %links;
# Two for each connection; more of them wait in the queues of the listeners.
my $max_ends = 2048;
# Connections for orders, by descriptor, with what was read of them.
my %orders;
# For a relay in the place of one that died: there unless the kernel is known to run. It says
# `paused` where that is known. A kernel that is asked to resume and is not paused ends.
my $paused_file = "$number_file-paused";
# Both have one length.
my ( $paused_word, $asked_word ) = ( 'paused', 'asked ' );
my $noted = read_note();
# The state of the kernel, and the one that it is to have.
my $is_paused = $noted eq $paused_word ? 1 : 0;
my $wanted = $is_paused;
# What it was asked for and has not answered in time: its socket, what was read, the state that it
# brings.
my $late;
# Whether the guardian has asked for a pause.
my $must_pause = 0;

sub reach_kernel {
    # AF_UNIX, SOCK_STREAM
    socket( my $socket, 1, 1, 0 ) or return;
    connect( $socket, pack( 'S Z*', 1, $kernel ) ) or return;
    return $socket;
}

# Sends one call, with a descriptor where there is one.
sub send_call {
    my ( $socket, $method, $argument, $passed ) = @_;
    my $text = qq({"method":"containerManager.$method","arg":$argument});
    return syswrite( $socket, $text ) == length $text unless defined $passed;
    my $vector = pack 'P Q', $text, length $text;
    # SOL_SOCKET, SCM_RIGHTS
    my $rights = pack 'Q l l l x4', 20, 1, 1, fileno $passed;
    my $message = pack 'Q L x4 P Q P Q l x4', 0, 0, $vector, 1, $rights, length $rights, 0;
    # MSG_NOSIGNAL
    return syscall( $call->{sendmsg}, fileno $socket, $message, 0x4000 ) == length $text;
}

# Joins a connection to a port; returns this side of it and the call.
sub reach_port {
    my ($port) = @_;
    socketpair( my $near, my $far, 1, 1, 0 ) or return;
    my $socket = reach_kernel() or return;
    send_call( $socket, 'PortForward', qq({"ContainerID":"$id","Port":$port}), $far ) or return;
    return ( $near, $socket );
}

sub pass_on {
    my ( $client, $port ) = @_;
    return if keys %calls >= $max_calls;
    my ( $near, $socket ) = reach_port($port) or return;
    # F_SETFL, O_NONBLOCK
    fcntl $_, 4, 2048 for $near, $client;
    my $link = { client => $client, near => $near, read => '', to_client => '', to_near => '',
        held => '', waits => 0, is_deaf => 0, ended => 0 };
    $links{ fileno $_ } = $link for $client, $near;
    $calls{ fileno $socket } = { socket => $socket, link => $link, text => '',
        until => seconds() + $patience };
}

sub read_note {
    open( my $file, '<', $paused_file ) or return '';
    return readline($file) // $asked_word;
}

sub note {
    my ($word) = @_;
    if ( $word eq '' ) { unlink $paused_file; return }
    # In place: ext4 writes a file that was emptied and filled to the disk; the next change waits.
    my $file;
    open( $file, '+<', $paused_file ) or open( $file, '>', $paused_file ) or return;
    syswrite $file, $word;
}

# Asks for a state; what came of it is read by `await_answer`.
sub ask_kernel {
    my ($state) = @_;
    my $socket = reach_kernel() or return;
    note($asked_word);
    send_call( $socket, $state ? 'Pause' : 'Resume', '{}' ) or return;
    return { socket => $socket, text => '', brings => $state };
}

# Whether the kernel did what it was asked for; undefined when it has not answered by then.
sub await_answer {
    my ( $asked, $end ) = @_;
    while ( $asked->{text} !~ /"success":(?:true|false)/ ) {
        my $ready = '';
        vec( $ready, fileno $asked->{socket}, 1 ) = 1;
        my $found = select $ready, undef, undef, $end > seconds() ? 0.5 : 0;
        if ( $found <= 0 ) { seconds() < $end ? next : return }
        return 0 if length $asked->{text} > $max_reply;
        sysread $asked->{socket}, $asked->{text}, $max_reply, length $asked->{text} or return 0;
    }
    return $asked->{text} =~ /"success":true/ ? 1 : 0;
}

# What came of the last question.
sub take_answer {
    my ($done) = @_;
    $is_paused = $late->{brings} if $done;
    undef $late;
    note( $is_paused ? $paused_word : '' );
}

# Pauses nest inside: each state is asked for once, and the next one after the answer, which a pause
# has when the last program is out of the kernel.
sub switch_to {
    my ($state) = @_;
    my $end = seconds() + $patience;
    $wanted = $state;
    while ( $late || $is_paused != $state ) {
        # The pause was given up: it ends as soon as it has come about.
        return 1 if $late && !$state && !$is_paused;
        $late ||= ask_kernel($state) or return 0;
        my $done = await_answer( $late, $end ) // return 0;
        take_answer($done);
        return 0 unless $done;
    }
    return 1;
}

# What has come about after it was given up is undone.
sub read_late {
    take_answer( await_answer( $late, 0 ) // return );
    switch_to($wanted);
}

# The state that it is in once the kernel has answered.
sub coming_state { return $late ? $wanted : $is_paused }

# Does what an order says; it is taken back when it fails, or when nobody learns that it has not.
sub follow {
    my ( $order, $socket ) = @_;
    return ask_daemon($socket) if $order eq 'ask';
    my $before = coming_state();
    my $done = $order eq 'pause' ? switch_to(1) : $order eq 'resume' ? switch_to(0)
        : $order eq 'state';
    $wanted = $before unless $done;
    my $answer = $done ? ( coming_state() ? "paused\n" : "running\n" ) : "failed\n";
    my $is_told = syswrite $socket, $answer;
    switch_to($before) if $done && !$is_told && $order ne 'state';
}

sub read_order {
    my ($number) = @_;
    my ( $socket, $text ) = @{ $orders{$number} };
    my $count = sysread $socket, $text, $max_order, length $text;
    $orders{$number}[1] = $text;
    if ( $count && $text !~ /\n/ && length $text < $max_order ) { return }
    follow( $1, $socket ) if $text =~ /\A(\w+)\n/;
    delete $orders{$number};
}

sub read_answer {
    my ($number) = @_;
    my $waiting = $calls{$number};
    my $count = sysread $waiting->{socket}, $waiting->{text}, $max_reply, length $waiting->{text};
    return if $count && $waiting->{text} !~ /"success":/ && length $waiting->{text} < $max_reply;
    delete $calls{$number};
    return if $waiting->{text} =~ /"success":true/ || $waiting->{link}{ended} == 2;
    drop_link( $waiting->{link} );
}

# Whether the daemon answers a question. A port on which nothing listens closes the connection, but
# not with every version: the question is asked again after a moment.
sub is_served {
    my ( $secret, $held ) = @_;
    # What cannot be reached any more has ended.
    reach_kernel() or exit 0;
    my ( $near, $socket ) = reach_port( $ports[1] ) or return 0;
    local $SIG{PIPE} = 'IGNORE';
    my $question = "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    syswrite $near, pack( 'N', length $secret . $question ) . $secret . $question;
    my $ready = '';
    vec( $ready, fileno $_, 1 ) = 1 for $near, $held;
    select( $ready, undef, undef, 1 ) > 0 or return 0;
    exit 0 if vec( $ready, fileno $held, 1 );
    return ( sysread( $near, my $byte, 1 ) // 0 ) > 0;
}

# Before it connections wait in their queue, as those to a daemon that just starts.
sub await_daemon {
    my ( $secret, $held, $limit ) = @_;
    my $end = seconds() + $limit;
    until ( is_served( $secret, $held ) ) {
        return 0 if seconds() > $end;
        select( undef, undef, undef, 0.01 );
    }
    return 1;
}

# The relay before this one died between a question and its answer. The daemon of a paused kernel
# answers nothing.
sub find_state {
    my ( $secret, $held ) = @_;
    $wanted = $is_paused = await_daemon( $secret, $held, $patience ) ? 0 : 1;
    note( $is_paused ? $paused_word : '' );
}

sub accept_at {
    my ($index) = @_;
    accept( my $client, $listeners[$index] ) or return;
    if ( $index < 2 ) { pass_on( $client, $ports[$index] ) }
    elsif ( keys %orders < $max_calls ) { $orders{ fileno $client } = [ $client, '' ] }
}

sub serve {
    my ($held) = @_;
    local $SIG{PIPE} = 'IGNORE';
    local $SIG{HUP} = 'IGNORE';
    while (1) {
        my $ready = '';
        vec( $ready, fileno $_, 1 ) = 1
            for keys %links < $max_ends ? @listeners : $listeners[2], $held;
        vec( $ready, $_, 1 ) = 1 for keys %calls, keys %orders;
        vec( $ready, fileno $late->{socket}, 1 ) = 1 if $late;
        my $writable = '';
        for my $number ( keys %links ) {
            my $wanted = wants( $links{$number}, $number );
            vec( $ready, $number, 1 ) = 1 if $wanted & 1;
            vec( $writable, $number, 1 ) = 1 if $wanted & 2;
        }
        my $limit = ( grep { is_full($_) } values %links ) ? 0.05 : 1;
        my $found = select $ready, $writable, undef, $limit;
        if ($must_pause) { $must_pause = 0; switch_to(1) }
        my $now = seconds();
        for my $number ( grep { $calls{$_}{until} < $now } keys %calls ) {
            my $link = delete( $calls{$number} )->{link};
            drop_link($link) if $link->{ended} != 2;
        }
        if ( $found <= 0 ) { ( $ready, $writable ) = ( '', '' ) }
        # The kernel says nothing on a connection without calls: it has ended.
        return if vec( $ready, fileno $held, 1 );
        read_late() if $late && vec( $ready, fileno $late->{socket}, 1 );
        read_answer($_) for grep { vec( $ready, $_, 1 ) } keys %calls;
        read_order($_) for grep { vec( $ready, $_, 1 ) } keys %orders;
        serve_links( $ready, $writable );
        accept_at($_) for grep { vec( $ready, fileno $listeners[$_], 1 ) } 0 .. 2;
    }
}

chomp( my $secret = <STDIN> // '' );
my $held = reach_kernel() or die "$kernel: $!\n";
# From the moment at which its number is known.
$SIG{USR1} = sub { $must_pause = 1 };
defined( my $pid = fork ) or die "fork: $!\n";
if ( $pid != 0 ) {
    open( my $file, '>', $number_file ) or die "$number_file: $!\n";
    syswrite $file, "$pid\n";
    exit 0;
}
syscall( $call->{setsid} ) >= 0 or die "setsid: $!\n";
# A lack of memory in the sandbox must not end it.
if ( open( my $score, '>', '/proc/self/oom_score_adj' ) ) { syswrite $score, '-1000' }
for my $stream ( \*STDIN, \*STDOUT, \*STDERR ) { open( $stream, '+<', '/dev/null' ) or exit 1 }
if    ( $noted eq '' )           { await_daemon( $secret, $held, $start_patience ) }
elsif ( $noted ne $paused_word ) { find_state( $secret, $held ) }
serve($held);
