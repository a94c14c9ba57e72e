# The part of `launcher.pl` that mounts the disks of containers. It is loaded by `do` from there,
# with which it shares what is declared by `our`.

use v5.14;

our ( $call, $namespace, $cwd );

# MS_NOSUID, MS_NODEV, MS_NOATIME; and MS_NOEXEC for what is seen only through an overlay.
my $runs_programs = 0x2 | 0x4 | 0x400;
my $no_programs   = $runs_programs | 0x8;

sub attach {
    my ( $image, $target, $type, $data, $flags, $mount_flags, $sector ) = @_;
    open( my $backing, '+<', $image ) or fail($image);
    open( my $control, '+<', '/dev/loop-control' ) or fail('loop-control');
    # struct loop_config with LO_FLAGS_AUTOCLEAR and perhaps LO_FLAGS_DIRECT_IO, and the file's name
    # for whoever lists devices.
    my $name   = substr $image, -63;
    my $config = pack 'L2 x40 x12 L a64 x112 x64', fileno $backing, $sector // 0, 4 | $flags, $name;
    for ( 1 .. 100 ) {
        # LOOP_CTL_GET_FREE, LOOP_CONFIGURE. Between the two another one may take the device: EBUSY.
        defined( my $number = ioctl( $control, 0x4C82, 0 ) ) or fail('no loop device');
        my $device = '/dev/loop' . ( $number + 0 );
        make_node($device);
        open( my $handle, '+<', $device ) or fail($device);
        if ( !ioctl( $handle, 0x4C0A, $config ) ) {
            next if $! == 16;
            fail($device);
        }
        mount_call( $device, $target, $type, $mount_flags, $data );
        return;
    }
    fail('no free loop device');
}

sub mount_disk {
    my ( $image, $target ) = @_;
    attach( $image, $target, 'ext4', 'noinit_itable', 0, $no_programs );
}

sub mount_used_disk {
    my ( $image, $target ) = @_;
    mount_shared( $image, $target, 'ext4', 'noinit_itable', 0, $no_programs );
}

# A copy of the home has the same id of its file system: XFS would refuse the one that comes second.
sub mount_store {
    my ( $image, $target ) = @_;
    my $sector = xfs_sector($image);
    mount_shared( $image, $target, 'xfs', 'discard,nouuid', 16, $no_programs, $sector );
}

# With direct I/O the kernel gives a device the sectors of the disk below, and XFS mounts on none
# with larger sectors than those that it was made with: the home may have come to another disk.
sub xfs_sector {
    my ($image) = @_;
    open( my $file, '<', $image ) or fail($image);
    # The superblock has it as 16 bits, the higher byte first.
    sysseek( $file, 102, 0 ) or fail($image);
    sysread( $file, my $bytes, 2 ) == 2 or return 0;
    my $sector = unpack 'n', $bytes;
    return $sector == 512 || $sector == 1024 || $sector == 2048 || $sector == 4096 ? $sector : 0;
}

sub grow_store {
    my ( $image, $target, $bytes ) = @_;
    my ( $device, $handle ) = attached_device($image);
    defined $device or complain("no device has $image");
    sysopen( my $folder, $target, $call->{O_DIRECTORY} ) or fail($target);
    # Another file system may be mounted over it, and its device have space for more.
    ( stat $folder )[0] == ( stat $handle )[6] or complain("$target is no mount of $image");
    # LOOP_SET_CAPACITY: a device has the size that its file had when it was attached.
    ioctl( $handle, 0x4C07, 0 ) or fail("size of $device");
    # XFS_IOC_FSGEOMETRY_V1. A growth is told the share of inodes too, which stays the same.
    my $geometry = "\0" x 112;
    ioctl( $folder, 0x80705864, $geometry ) or fail("geometry of $target");
    my ( $block_bytes, $inode_share, $blocks ) = unpack 'L x24 L Q', $geometry;
    my $wanted = int( $bytes / $block_bytes );
    # A newer kernel would make it smaller.
    return if $wanted <= $blocks;
    # XFS_IOC_FSGROWFSDATA
    my $growth = pack 'Q L x4', $wanted, $inode_share;
    ioctl( $folder, 0x4010586E, $growth ) or fail("grow $target");
}

sub mount_volume_disk {
    my ( $image, $target ) = @_;
    mount_shared( $image, $target, 'ext4', 'noinit_itable', 0, $runs_programs );
}

# A mount that was copied into the namespace of another program keeps the file system in use after
# it was unmounted here. Under a second device the kernel would take it for another one.
sub mount_shared {
    my ( $image, $target, $type, $data, $flags, $mount_flags, $sector ) = @_;
    my ( $device, $handle ) = attached_device($image);
    if ( defined $device ) {
        mount_call( $device, $target, $type, $mount_flags, $data );
    }
    else { attach( $image, $target, $type, $data, $flags, $mount_flags, $sector ) }
}

# The device that has the image already, held open: it goes with its last user.
sub attached_device {
    my ($image) = @_;
    my ( $image_device, $image_inode ) = stat $image;
    defined $image_inode or fail($image);
    # Not by a pattern: that loads a module, in each start of a sandbox.
    opendir( my $folder, '/sys/block' ) or return;
    for my $name ( grep {/\Aloop[0-9]/} readdir $folder ) {
        my $device = "/dev/$name";
        make_node($device) if -e "/sys/block/$name/loop";
        # Closing one that was opened for writing would have udev look at it.
        open( my $handle, '<', $device ) or next;
        my $info = "\0" x 232;
        # LOOP_GET_STATUS64, which begins with the device and the inode of the file.
        ioctl( $handle, 0x4C05, $info ) or next;
        my ( $device_of, $inode ) = unpack 'Q2', $info;
        return ( $device, $handle ) if $device_of == $image_device && $inode == $image_inode;
    }
    return;
}

# The /dev of a container has the devices that there were when it was started, and an image may be
# attached to a later one.
sub make_node {
    my ($device) = @_;
    return if -e $device;
    my $name = $device =~ s{.*/}{}r;
    open( my $file, '<', "/sys/block/$name/dev" ) or return;
    my ( $major, $minor ) = <$file> =~ /^(\d+):(\d+)$/ or return;
    my $number = ( $major << 8 ) | ( $minor & 0xff ) | ( ( $minor & ~0xff ) << 12 );
    # S_IFBLK. Where it is not made, and not there by now, the device cannot be opened.
    syscall $call->{mknodat}, $cwd, $device, 0060600, $number;
    return;
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

sub unmount {
    my ($path) = @_;
    syscall( $call->{umount2}, $path, 2 ) == 0 or fail("unmount $path");
}

sub mark_opaque {
    my ( $path, $name, $value ) = ( $_[0], 'trusted.overlay.opaque', 'y' );
    syscall( $call->{setxattr}, $path, $name, $value, 1, 0 ) == 0 or fail("opaque $path");
}

1;
