# An ordinary user's way to containers: becomes the program that it is given in a user namespace,
# in which that one is root. Arguments: the variable in which a fault is told, Node's name of the
# processor, the home, the commands of newuidmap and newgidmap without the pid, each as one word,
# and the program with its arguments. Whatever fails, the program is started and told why. All
# instances of a home share one namespace, since nobody in another one may end what it holds: it
# is found by the processes that are in it or in a container of it, and joined, else made. A child
# gives it ids: only the set-uid helpers of the system may. Process number, standard streams and
# environment stay what they are, but for a HOME that is missing or relative. perl-base alone must
# be enough: no module is loaded but File::Glob, which glob is.
# Still needed: unshare of util-linux 2.38 maps a range of ids, and nsenter joins a namespace, but
# neither finds the namespace of a home under a lock, nor says in the program's own words what
# failed.

use v5.14;

my ( $fault, $arch, $home, @maps ) = splice @ARGV, 0, 5;
my ( $new_user, $new_mounts, $get_parent ) = ( 0x10000000, 0x20000, 0xb702 );
my ( $lock_alone, $lock_seconds ) = ( 2, 60 );
my $known = "$home/namespace";

# In the namespace the account of this process is that of root, with another directory.
# One that is relative counts as none, as where the home is looked for.
$ENV{HOME} = ( getpwuid $< )[7] // '/' unless ( $ENV{HOME} // '' ) =~ m{\A/};
my $mask = umask;

sub go_on {
    umask $mask;
    $ENV{$fault} = $_[0] if defined $_[0];
    exec { $ARGV[0] } @ARGV;
    exit 111;
}

my $table = $0 =~ s{[^/]*\z}{syscalls.pl}r;
my $numbers = do $table or go_on( "cannot load $table: " . ( $@ || $! ) );
my $call = $numbers->($arch) or go_on("no support for $arch");

sub start_ticks {
    open( my $file, '<', "/proc/$_[0]/stat" ) or return '';
    my $line = <$file> // '';
    return ( split / /, substr $line, rindex( $line, ')' ) + 2 )[19] // '';
}

sub namespace_of {
    open( my $handle, '<', "/proc/$_[0]/ns/user" ) or return;
    return $handle;
}

sub number_of { return ( stat $_[0] )[1] // 0 }

# The namespace right below ours that this process is in, at whatever depth.
sub below_ours {
    my ($pid) = @_;
    my $ours = number_of( namespace_of($$) );
    my $handle = namespace_of($pid) or return;
    return if number_of($handle) == $ours;
    while (1) {
        my $fd = syscall( $call->{ioctl}, fileno $handle, $get_parent, 0 );
        return if $fd < 0;
        open( my $parent, '<&=', $fd ) or return;
        return $handle if number_of($parent) == $ours;
        $handle = $parent;
    }
}

# The processes that the home knows, each a line of its number and its start, so that none is taken
# for a later one: those of its instances, and the first one of each container.
sub members {
    my @found;
    for my $path ( $known, glob("\Q$home\E/instances/*/s/*/process") ) {
        open( my $file, '<', $path ) or next;
        while (<$file>) { push @found, [ $1, $2 ] if /^(\d+) (\d+)$/ }
    }
    return grep { start_ticks( $_->[0] ) eq $_->[1] } @found;
}

sub give_ids {
    my ( $ready, $out ) = @_;
    open( STDIN, '<', '/dev/null' );
    open( STDOUT, '>&', $out );
    open( STDERR, '>&', $out );
    my $parent = getppid();
    sysread( $ready, my $byte, 1 ) or exit 1;
    for (@maps) {
        my ( $tool, @words ) = split / /;
        exit 1 if system {$tool} $tool, $parent, @words;
    }
    exit 0;
}

# AppArmor of Ubuntu lets everyone make a user namespace and refuses each capability in it. No way
# leads back from one, so a child looks.
sub are_rights_refused {
    my $pid = fork // return 0;
    if ( $pid == 0 ) {
        exit 0 if syscall( $call->{unshare}, $new_user ) != 0;
        exit( syscall( $call->{unshare}, $new_mounts ) != 0 );
    }
    waitpid $pid, 0;
    return $? != 0;
}

sub restricts_namespaces {
    open( my $file, '<', '/proc/sys/kernel/apparmor_restrict_unprivileged_userns' ) or return 0;
    return <$file> =~ /^1/;
}

sub make_namespace {
    return 'user namespace: the system refuses capabilities in it: ' . (
        restricts_namespaces()
        ? 'allow them with sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0'
        : 'a security module or a filter of system calls does; in a container, start that with '
            . '--privileged'
    ) if are_rights_refused();
    pipe( my $ready_in, my $ready_out ) && pipe( my $text_in, my $text_out ) or return "pipe: $!";
    my $pid = fork;
    defined $pid or return "fork: $!";
    if ( $pid == 0 ) {
        close $ready_out;
        close $text_in;
        give_ids( $ready_in, $text_out );
    }
    close $ready_in;
    close $text_out;
    my $made = syscall( $call->{unshare}, $new_user ) == 0;
    my $reason = "user namespace: $!: ";
    # ENOSPC: so many are there already, or none may be.
    $reason .=
        $! == 28
        ? 'allow more with sysctl user.max_user_namespaces=10000'
        : 'allow it with sysctl kernel.unprivileged_userns_clone=1 or '
        . 'kernel.apparmor_restrict_unprivileged_userns=0; '
        . 'in a container, start that with --privileged';
    syswrite $ready_out, 'y' if $made;
    close $ready_out;
    my $text = '';
    while ( sysread $text_in, my $part, 4096 ) { $text .= $part if length $text < 4096 }
    waitpid $pid, 0;
    return $reason unless $made;
    return undef unless $?;
    $text =~ s/\s+/ /ga;
    return may_not_gain()
        ? 'newuidmap has no rights here: start this program without no_new_privs, '
        . 'as NoNewPrivileges of systemd sets it'
        : "ids: $text";
}

# Set-id programs give such a process nothing; to join a namespace it needs none.
sub may_not_gain {
    open( my $file, '<', '/proc/self/status' ) or return 0;
    return scalar grep { /^NoNewPrivs:\t1$/ } <$file>;
}

umask 0077;
# With what is missing above it, as for a new account.
mkdir substr $home, 0, $-[0] while $home =~ m{/|\z}g;
open( my $lock, '>', "$known.lock" ) or go_on("$known.lock: $!");

# A holder that is stopped must not keep others for ever.
$SIG{ALRM} = sub { go_on("$known.lock: another process holds it for $lock_seconds s") };
alarm $lock_seconds;
flock( $lock, $lock_alone ) or go_on("$known.lock: $!");
alarm 0;
my @members = members();
for my $member (@members) {
    my $handle = below_ours( $member->[0] ) or next;
    next if syscall( $call->{setns}, fileno $handle, $new_user ) != 0;
    remember(@members);
    go_on(undef);
}
my $failure = make_namespace();
remember() unless defined $failure;
go_on($failure);

sub remember {
    open( my $file, '>', "$known.part" ) or go_on("$known.part: $!");
    my %seen;
    print $file "$_->[0] $_->[1]\n" for grep { !$seen{ $_->[0] }++ } @_, [ $$, start_ticks($$) ];
    close $file;
    rename "$known.part", $known;
}
