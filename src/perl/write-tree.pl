# Writes the tree of an image into an empty directory. Arguments: Node's name of the processor, the
# file of steps, the directory of contents, the directory of the tree, which is there and empty.
# Still needed: Node has no call for extended attributes, no time for a link together with its owner
# and no names as bytes without one call of a thread for each; tar takes no file from elsewhere.
#
# A step is a letter and five fields, each ended by NUL: path, word, mode and ids as `mode:uid:gid`,
# seconds, and attributes as `name=hex` joined by commas, the name in hex too, which f and t alone
# have. Every directory on a path was made by a step before, so no link is followed.
#       d directory     made now
#       f file          the content of this number is moved there
#       h further name  of the path that the word is
#       l link          to the word
#       t directory     gets its mode, owner, time and attributes, after all that is in it
# Status 111: a step failed, and standard error says which. What no file of this file system can
# have is the fault of the image: then a word and the path in hex are printed, and the status is 0.

use v5.14;

my ( $cwd, $no_follow, $bad_status ) = ( -100, 0x100, 111 );
sub fail { print STDERR "write-tree: $_[0]: $!\n"; exit $bad_status }
sub refuse { print "$_[0] ", unpack( 'H*', $_[1] ), "\n"; exit 0 }

# What a file that can have fewest attributes holds of them (ext4), which then says ENOSPC as a
# full disk does.
my ( $least_bytes, $entry_bytes ) = ( 3_800, 16 );
my ( $e2big, $enospc, $emlink ) = ( 7, 28, 31 );

my ( $arch, $steps, $contents, $tree ) = @ARGV;
my $table = $0 =~ s{[^/]*\z}{syscalls.pl}r;
my $numbers = do $table or fail('cannot load the table');
my $call = $numbers->($arch) or fail("no support for $arch");

# PR_SET_PDEATHSIG: it ends with the process that waits for it.
syscall( $call->{prctl}, 1, 9 ) == 0 or fail('prctl');

sub own {
    my ( $path, $uid, $gid ) = @_;
    syscall( $call->{fchownat}, $cwd, $path, $uid + 0, $gid + 0, $no_follow ) == 0 or fail('owner');
}

sub date {
    my ( $path, $seconds ) = @_;
    # Without access times that differ from one unpacking to the next.
    my $times = pack 'q4', $seconds, 0, $seconds, 0;
    syscall( $call->{utimensat}, $cwd, $path, $times, $no_follow ) == 0 or fail('time');
}

sub mark {
    my ( $path, $list ) = @_;
    my $bytes = 0;
    for my $pair ( split /,/, $list ) {
        my ( $name, $value ) = map { pack 'H*', $_ } split /=/, $pair, 2;
        $bytes += $entry_bytes + length($name) + length $value;
        next if syscall( $call->{lsetxattr}, $path, $name, $value, length $value, 0 ) == 0;
        refuse( 'attributes', $path ) if $! == $e2big || $! == $enospc && $bytes > $least_bytes;
        fail('attribute');
    }
}

sub settle {
    my ( $path, $facts, $seconds, $list ) = @_;
    my ( $mode, $uid, $gid ) = split /:/, $facts;
    # A change of the owner takes the set-id bits and the capabilities of a file away.
    own( $path, $uid, $gid );
    chmod $mode, $path or fail('mode');
    mark( $path, $list );
    date( $path, $seconds );
}

open my $input, '<', $steps or fail('steps');
binmode $input;
chdir $tree or fail('tree');
umask 0077;
local $/ = "\0";
my @step;
while ( defined( my $field = readline $input ) ) {
    chomp $field;
    push @step, $field;
    next if @step < 6;
    my ( $letter, $path, $word, $facts, $seconds, $list ) = @step;
    @step = ();
    if ( $letter eq 'd' ) { mkdir $path, 0700 or fail('directory') }
    elsif ( $letter eq 'f' ) {
        rename "$contents/$word", $path or fail('file');
        settle( $path, $facts, $seconds, $list );
    }
    elsif ( $letter eq 'h' ) {
        next if link $word, $path;
        refuse( 'names', $path ) if $! == $emlink;
        fail('further name');
    }
    elsif ( $letter eq 'l' ) {
        symlink $word, $path or fail('link');
        my ( $mode, $uid, $gid ) = split /:/, $facts;
        own( $path, $uid, $gid );
        date( $path, $seconds );
    }
    elsif ( $letter eq 't' ) { settle( $path, $facts, $seconds, $list ) }
    else { fail("step $letter") }
}
@step == 0 or fail('steps are cut off');
close $input or fail('steps');
