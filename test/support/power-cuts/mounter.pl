# Mounts images and takes the mounts away again, for as long as its standard input is open: a program for
# each would take longer than most of what is looked at there. Arguments: the table of system calls,
# and the processor by Node's name. A request is a line of words with tabs between; so is its answer, whose
# first word is `done` or `failed`.

use v5.14;

my ( $table, $processor ) = @ARGV;
my $call = ( do $table )->($processor) // die "no system calls of $processor\n";

my ( $attempts, $wait_seconds, $pause_seconds ) = ( 100, 60, 0.001 );
# Of a target: the number of its loop device, and the image.
my %attached;

sub attach {
    my ( $image, $target, $options ) = @_;
    open( my $backing, '+<', $image )             or die "$image: $!\n";
    open( my $control, '+<', '/dev/loop-control' ) or die "loop-control: $!\n";
    # struct loop_config with LO_FLAGS_AUTOCLEAR.
    my $config = pack 'L2 x40 x12 L a64 x112 x64', fileno $backing, 0, 4, substr $image, -63;
    for ( 1 .. $attempts ) {
        # LOOP_CTL_GET_FREE, LOOP_CONFIGURE. Between the two another one may take the device: EBUSY.
        defined( my $number = ioctl $control, 0x4C82, 0 ) or die "no loop device: $!\n";
        my $device = '/dev/loop' . ( $number + 0 );
        open( my $handle, '+<', $device ) or die "$device: $!\n";
        if ( !ioctl $handle, 0x4C0A, $config ) {
            next if $! == 16;
            die "$device: $!\n";
        }
        my $type = 'ext4';
        syscall( $call->{mount}, $device, $target, $type, 0, $options ) == 0
            or die "mount $image: $!\n";
        $attached{$target} = [ $number + 0, $image ];
        return;
    }
    die "no free loop device\n";
}

# With MNT_DETACH: all that is mounted below goes too. Then the device goes with its last user, which
# may be another program that lists devices.
sub detach {
    my ($target) = @_;
    syscall( $call->{umount2}, $target, 2 ) == 0 or die "unmount $target: $!\n";
    my ( $number, $image ) = @{ delete $attached{$target} // return };
    my $end = time + $wait_seconds;
    while ( is_backed( $number, $image ) ) {
        die "loop$number is still in use\n" if time > $end;
        select undef, undef, undef, $pause_seconds;
    }
}

sub is_backed {
    my ( $number, $image ) = @_;
    open( my $file, '<', "/sys/block/loop$number/loop/backing_file" ) or return 0;
    # Also where the image was removed meanwhile.
    return index( <$file> // '', $image ) == 0;
}

my %orders = ( attach => \&attach, detach => \&detach );
$| = 1;
while (<STDIN>) {
    chomp;
    my ( $order, @words ) = split /\t/;
    my $is_done = eval { $orders{$order}->(@words); 1 };
    print $is_done ? "done\n" : "failed\t" . $@ =~ s/\s+/ /gr . "\n";
}
