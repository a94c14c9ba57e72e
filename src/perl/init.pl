# Process 1 of a container: starts the program that it is given as its child, with the same standard
# streams, forwards signals to it, collects every process that the kernel gives to process 1, and
# ends with the program's exit code, or with 128 and the signal that ended it; the kernel then ends
# the rest of the container. Arguments: Node's name of the processor, and the program with its
# arguments. A blocked signal waits for process 1 also where process 1 has no handler for it.
# Still needed: Node collects only the children that it started itself, a container has no other
# init unless its user asks for one, and no handler of perl learns who sent a signal.

use v5.14;

# EX_OSERR of sysexits.
my $bad_status = 71;

# The program would become process 1, and start this one again.
sub give_up {
    print STDERR "sandbox-mcp: process 1 cannot start the program: $_[0]\n";
    exit $bad_status;
}

my $arch = shift;
my $table = $0 =~ s{[^/]*\z}{syscalls.pl}r;
my $numbers = do $table or give_up( "cannot load $table: " . ( $@ || $! ) );
my $call = $numbers->($arch) or give_up("no support for $arch");

my ( $set_mask, $mask_bytes, $info_bytes ) = ( 2, 8, 128 );
my ( $hangup, $child_ended, $continue ) = ( 1, 17, 18 );
# The `si_code` of a signal that the kernel sends, as for a key of a terminal.
my $from_kernel = 128;
my ( $all, $given ) = ( "\xff" x $mask_bytes, "\0" x $mask_bytes );

sub change_mask {
    my ( $new, $old ) = @_;
    syscall( $call->{rt_sigprocmask}, $set_mask, $new, $old, $mask_bytes ) == 0
        or give_up("signals: $!");
}

change_mask( $all, $given );
# Where this was inherited as ignored, the kernel collects children itself and tells no status.
$SIG{CHLD} = 'DEFAULT';
my $program = fork // give_up("fork: $!");
if ( $program == 0 ) {
    change_mask( $given, 0 );
    exec { $ARGV[0] } @ARGV or give_up("$ARGV[0]: $!");
}

# They are the program's alone: whoever is at their other end learns when the program closes them.
close $_ for *STDIN, *STDOUT, *STDERR;

my $leads_session = syscall( $call->{getsid}, 0 ) == $$;

# A key of a terminal reaches the whole process group, so the program too. The terminal's end
# reaches the session's leader alone.
sub has_reached_program {
    my ( $signal, $code ) = @_;
    my $is_for_leader = $leads_session && ( $signal == $hangup || $signal == $continue );
    return $code == $from_kernel && !$is_for_leader;
}

sub collect {
    while ( ( my $pid = waitpid -1, 1 ) > 0 ) {
        next if $pid != $program;
        my $signal = $? & 127;
        exit( $signal ? 128 + $signal : $? >> 8 );
    }
}

while (1) {
    my $info = "\0" x $info_bytes;
    my $signal = syscall( $call->{rt_sigtimedwait}, $all, $info, 0, $mask_bytes );
    next if $signal <= 0;
    my $code = ( unpack 'l3', $info )[2];
    if ( $signal == $child_ended ) { collect() }
    elsif ( !has_reached_program( $signal, $code ) ) { kill $signal, $program }
}
