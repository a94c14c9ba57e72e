# Copies trees that programs are still writing to: round after round, each of what changed since
# the one before, until little is left; then it says `ready` on its standard error and waits for a
# line. The round after that line is strict: nothing may change meanwhile, and the copies are
# equal to the trees when the program ends. Arguments: Node's name of the processor, how many bytes
# it may remember names by, then pairs of a tree and the folder that it is copied to, which is not
# there yet.
# Still needed: cp and rsync follow what they are told by names, which whoever writes there can
# swap, tell no change by its change time, and keep nothing between two rounds.
#
# perl-base alone must be enough: no module is loaded. Sources are walked by open folders and no
# link is followed: whoever writes there may be hostile. A file counts as changed when any fact of
# it did, its change time included, which nobody can set; or when it changed shortly before it was
# copied.
# Status 111: it failed, and standard error says why.

use v5.14;

# Shared with the other part. Of a round: whether it is strict, and how many bytes it copied.
our ( $call, $is_strict, $moved ) = ( undef, 0, 0 );
our ( $cwd, $link_itself ) = ( -100, 0x100 );
my $bad_status = 111;
my ( $emfile, $enospc, $enametoolong, $edquot ) = ( 24, 28, 36, 122 );
my $too_deep = 'tree is too deep to copy';
my $too_many = 'tree has too many names to copy';
# What is known of each name takes so much besides its path, which a file of several names has.
my ( $name_bytes, $held ) = ( 500, 0 );
# The coarse clock of change times ticks every few milliseconds.
my $slack_ns = 20_000_000;
# The kernel writes back by itself what is older, and in good time.
my $fresh_ns = 60_000_000_000;
# What is left for the strict round takes some milliseconds.
my ( $few_bytes, $most_rounds ) = ( 2 << 20, 6 );
my ( $naps, $most_naps ) = ( 0, 10 );
my $facts = "\0" x 256;
# Of a round: what was copied of inodes with several names, and each such name with its inode.
my ( %copied, @several );

sub complain { print STDERR "copier: $_[0]\n"; exit $bad_status }
sub fail { complain("$_[0]: $!") }

# From the directory of this program.
sub load {
    my $path = $0 =~ s{[^/]*\z}{$_[0]}r;
    return do($path) || complain( "cannot load $path: " . ( $@ || $! ) );
}
$call = load('syscalls.pl')->( shift @ARGV ) or exit $bad_status;
load('copier-entry.pl');
my $most_held = shift @ARGV;

# A disk that is full will not be less so in the next round.
sub trouble {
    # A target has no shorter name than its path, and each folder on the way is open.
    if ( $! == $enametoolong || $! == $emfile ) { complain($too_deep) }
    $! == $enospc || $! == $edquot ? fail( $_[0] ) : die "$_[0]: $!\n";
}

sub now_ns {
    my $time = "\0" x 16;
    syscall $call->{clock_gettime}, 0, $time;
    my ( $seconds, $nanos ) = unpack 'q q', $time;
    return $seconds * 1_000_000_000 + $nanos;
}

# Names, owners, mode, inode and size, then times of change and what a device is: all but when it
# was read, and what it takes on the disk.
sub key { substr( $facts, 16, 32 ) . substr( $facts, 96, 40 ) }

# What most are: a file with one name, as it was; nothing else is asked about them.
sub is_same {
    my ( $name, $was ) = @_;
    return
           $was
        && !$was->{kids}
        && syscall( $call->{statx}, $cwd, $name, $link_itself, 0x7ff, $facts ) == 0
        && key() eq $was->{facts}
        && unpack( 'x16 L', $facts ) == 1;
}

sub look {
    my ($name) = @_;
    syscall( $call->{statx}, $cwd, $name, $link_itself, 0x7ff, $facts ) == 0 or return undef;
    my %entry = ( facts => key() );
    @entry{qw(links uid gid mode ino size as an cs cn ms mn major minor)} =
        unpack 'x16 L L L S x2 Q Q x16 q L x20 q L x4 q L x4 L L', $facts;
    $entry{kind} = $entry{mode} & 0170000;
    $entry{ctime} = $entry{cs} * 1_000_000_000 + $entry{cn};
    return \%entry;
}

sub remove_tree {
    my ($path) = @_;
    my $entry = look($path) or return;
    if ( $entry->{kind} == 0040000 ) {
        opendir( my $folder, $path ) or trouble($path);
        my @names = grep { $_ ne '.' && $_ ne '..' } readdir $folder;
        closedir $folder;
        remove_tree("$path/$_") for @names;
        rmdir $path or trouble($path);
    }
    else {
        unlink $path or trouble($path);
    }
}

# Writing back one file after another takes long; begun together it does not.
sub begin_writing {
    my ( $name, $known ) = @_;
    return if $is_strict;
    my $entry = look($name) or return;
    return if $entry->{kind} != 0100000 || ( $known->{$name}{facts} // '' ) eq $entry->{facts};
    return if $entry->{ctime} < now_ns() - $fresh_ns;
    sysopen( my $file, $name, $call->{O_NOFOLLOW} | 0x800 ) or return;
    syscall $call->{sync_file_range}, fileno($file), 0, 0, 2;
}

# One name of the current folder; 1 when the copy of that folder changed.
sub visit_leaf {
    my ( $name, $target, $entry, $known, $began ) = @_;
    my $inode      = $entry->{links} > 1 ? $entry->{ino} : undef;
    my $is_changed = ( $known->{$name}{facts} // '' ) ne $entry->{facts};
    replace_leaf( $name, $target, $entry, $known, $began ) if $is_changed;
    push @several, [ $target, $inode, $known->{$name} ] if defined $inode;
    return $is_changed;
}

sub replace_leaf {
    my ( $name, $target, $entry, $known, $began ) = @_;
    remove_tree($target) if $known->{$name};
    # Until it is whole, the next round makes it anew.
    my $own  = $known->{$name} = { facts => '' };
    my $copy = $entry->{links} > 1 ? $copied{ $entry->{ino} } : undef;
    if ( $copy && $copy->{facts} eq $entry->{facts} ) {
        link( $copy->{target}, $target ) or trouble("link $target");
    }
    else {
        copy_leaf( $name, $target, $entry );
        $copy = { facts => $entry->{facts}, target => $target, began => $began };
        $copied{ $entry->{ino} } = $copy if $entry->{links} > 1;
    }
    # Another name of a file is no newer than the copy that was made of the first one.
    my $is_settled = $is_strict || $entry->{ctime} < $copy->{began} - $slack_ns;
    $own->{facts} = $entry->{facts} if $is_settled;
    $own->{copy}  = $copy           if $entry->{links} > 1;
}

sub visit_folder {
    my ( $name, $target, $entry, $known, $began ) = @_;
    my $is_new = !( $known->{$name} && $known->{$name}{kids} );
    if ($is_new) {
        remove_tree($target) if $known->{$name};
        $known->{$name} = { facts => '' };
        mkdir( $target, 0700 ) or trouble("make $target");
        $known->{$name}{kids} = {};
    }
    sysopen( my $folder, $name, $call->{O_DIRECTORY} | $call->{O_NOFOLLOW} )
        or trouble("open $target");
    opendir( my $back, '.' ) or trouble('folder');
    chdir $folder or trouble("enter $target");
    my $kids = $known->{$name}{kids};
    my $has_changed = eval { visit_names( $target, $kids ) };
    my $problem = $@;
    if ( $problem eq '' && ( $has_changed || $known->{$name}{facts} ne $entry->{facts} ) ) {
        eval { dress( '.', $target, $entry, $is_new ); 1 } or $problem = $@;
        my $is_settled = $is_strict || $entry->{ctime} < $began - $slack_ns;
        $known->{$name}{facts} = $is_settled ? $entry->{facts} : '';
    }
    chdir $back or fail('folder');
    die $problem if $problem ne '';
    return $is_new;
}

sub visit {
    my ( $name, $target, $known ) = @_;
    my $began = now_ns();
    my $entry = look($name) or trouble($target);
    if (  !$is_strict
        && $entry->{size} > $few_bytes
        && $entry->{ctime} >= $began - $slack_ns
        && $naps++ < $most_naps )
    {
        # Much would be copied for nothing: a moment later it is known to have been written before.
        select undef, undef, undef, 1.1 * $slack_ns / 1_000_000_000;
        $began = now_ns();
        $entry = look($name) or trouble($target);
    }
    return visit_folder( $name, $target, $entry, $known, $began ) if $entry->{kind} == 0040000;
    return visit_leaf( $name, $target, $entry, $known, $began );
}

# Makes the copy of the current folder equal to it; whether anything had to be done in it.
sub visit_names {
    my ( $target, $known ) = @_;
    opendir( my $folder, '.' ) or trouble($target);
    my @names;
    while ( defined( my $name = readdir $folder ) ) {
        next if $name eq '.' || $name eq '..';
        $held += $name_bytes + length($target) + length $name;
        complain($too_many) if $held > $most_held;
        push @names, $name;
    }
    closedir $folder;
    my %is_here = map { $_ => 1 } @names;
    my $has_changed = 0;
    for my $gone ( grep { !$is_here{$_} } keys %$known ) {
        remove_tree("$target/$gone");
        delete $known->{$gone};
        $has_changed = 1;
    }
    begin_writing( $_, $known ) for @names;
    for my $name (@names) {
        next if is_same( $name, $known->{$name} );
        my $done = eval { visit( $name, "$target/$name", $known ) };
        $has_changed = 1 if !defined $done || $done;
       # Programs take away and change what is just being looked at; the strict round sees it again.
        die $@ if !defined $done && $is_strict;
    }
    return $has_changed;
}

# Names of one file are names of one file in the copy, too, whichever of them were copied, and in
# whichever round: between two of them programs may have written to the file.
sub join_names {
    my %source;
    for my $several (@several) {
        my ( $target, $inode, $own ) = @$several;
        my $copy = $copied{$inode};
        $source{$inode} ||= $copy ? [ $copy->{target}, $copy ] : [ $target, $own->{copy} ];
        my ( $source, $its ) = @{ $source{$inode} };
        next if $its == $own->{copy};
        unlink $target;
        link( $source, $target ) or trouble("link $target");
        $own->{copy} = $its;
    }
}

my %trees = @ARGV;
my %known;

sub round {
    ( %copied, @several ) = ();
    ( $moved, $held ) = ( 0, 0 );
    for my $source ( sort keys %trees ) {
        opendir( my $back, '.' ) or fail('folder');
        visit( $source, $trees{$source}, $known{$source} ||= {} );
        chdir $back or fail('folder');
    }
    join_names() if $is_strict;
}

umask 0077;
for ( my $count = 0 ; $count < $most_rounds ; $count++ ) {
    eval { round(); 1 } or next;
    last if $moved <= $few_bytes;
}
print STDERR "ready\n";
defined readline STDIN or exit $bad_status;
$is_strict = 1;
eval { round(); 1 } or do { print STDERR "copier: $@"; exit $bad_status };
