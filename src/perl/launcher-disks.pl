# The part of `launcher.pl` that mounts the disks of containers. It is loaded by `do` from there,
# with which it shares what is declared by `our`.

use v5.14;

our ( $call, $namespace, $cwd );

sub attach {
    my ( $image, $target, $type, $data, $flags ) = @_;
    open( my $backing, '+<', $image ) or fail($image);
    open( my $control, '+<', '/dev/loop-control' ) or fail('loop-control');
    # struct loop_config with LO_FLAGS_AUTOCLEAR and perhaps LO_FLAGS_DIRECT_IO, and the file's name
    # for whoever lists devices.
    my $name   = substr $image, -63;
    my $config = pack 'L2 x40 x12 L a64 x112 x64', fileno $backing, 0, 4 | $flags, $name;
    for ( 1 .. 100 ) {
        # LOOP_CTL_GET_FREE, LOOP_CONFIGURE. Between the two another one may take the device: EBUSY.
        defined( my $number = ioctl( $control, 0x4C82, 0 ) ) or fail('no loop device');
        my $device = '/dev/loop' . ( $number + 0 );
        open( my $handle, '+<', $device ) or fail($device);
        if ( !ioctl( $handle, 0x4C0A, $config ) ) {
            next if $! == 16;
            fail($device);
        }
        # MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_NOATIME
        mount_call( $device, $target, $type, 0x2 | 0x4 | 0x8 | 0x400, $data );
        return;
    }
    fail('no free loop device');
}

# The files of a copied disk have the ids of another container, and the kernel's own marks on it are
# root's, whom the second line of the map leaves as he is.
sub remap_disk {
    my ( $source, $target, $from, $to ) = @_;
    local $namespace;
    hold_namespace( $from, $to, 65536, "\n0 0 1" );
    my ( $tree, $empty ) = ( open_clone( $source, 1, 1 ), '' );
    syscall( $call->{move_mount}, $tree, $empty, $cwd, $target, 0x4 ) == 0
        or fail("move_mount $target");
    syscall( $call->{close}, $tree );
}

1;
