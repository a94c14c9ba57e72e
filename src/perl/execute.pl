# How a child becomes a program of a user, for the programs of this directory that start some. Each
# loads it by `do` from its own directory, and gets a function of the table of system calls. That
# one returns two others, of which the first gives up by the second and so never returns:
#       of a user, who is a list of uid, gid and groups with commas between, of the directory where
#       it is, of variables and words: closes all but the standard streams, changes the identity,
#       unless the uid is empty, and executes the words as execvp(3) would
#       of a handle and of what failed, with the error in `$!`: tells it there as a shell would, and
#       ends the process
# Still needed: perl's own `exec` takes the variables from %ENV, where each one that is set looks at
# all others: a hundred thousand take minutes.

use v5.14;

my ( $enoent, $enoexec, $eacces, $enotdir ) = ( 2, 8, 13, 20 );
# With ENODEV, ETIMEDOUT and ESTALE: another directory may have the program.
my %is_elsewhere = map { $_ => 1 } $enoent, $eacces, $enotdir, 19, 110, 116;
# With ENAMETOOLONG and ELOOP: the command is not there, for which shells have a status.
my %is_missing = map { $_ => 1 } $enoent, $enotdir, 36, 40;
my $shell = '/bin/sh';

return sub {
    my $call = $_[0];

    # At once, since perl itself would tidy up aloud.
    my $give_up = sub {
        my ( $handle, $what, $code ) = ( @_, $! + 0 );
        my $reason = $code == $enoent || $code == $enotdir ? 'not found' : "$!";
        syswrite $handle, "sh: $what: $reason\n";
        syscall( $call->{exit_group}, $is_missing{$code} ? 127 : 126 );
    };

    my $become = sub {
        my ( $uid, $gid, $groups ) = @_;
        my $list = pack 'L*', my @ids = split /,/, $groups;
        syscall( $call->{setgroups}, scalar @ids, $list ) == 0 or return 0;
        syscall( $call->{setresgid}, $gid + 0, $gid + 0, $gid + 0 ) == 0 or return 0;
        return syscall( $call->{setresuid}, $uid + 0, $uid + 0, $uid + 0 ) == 0;
    };

    # Returns only with an error. The kernel takes addresses, of which the last one is zero.
    my $become_file = sub {
        my ( $file, $environment, @words ) = @_;
        my $addresses = pack 'p*', @words, undef;
        syscall $call->{execve}, $file, $addresses, $environment;
        return if $! != $enoexec;
        # A script without an interpreter.
        @words = ( $shell, $file, @words[ 1 .. $#words ] );
        $addresses = pack 'p*', @words, undef;
        syscall $call->{execve}, $shell, $addresses, $environment;
    };

    my $execute = sub {
        my ( $user, $directory, $variables, $words ) = @_;
        syscall $call->{close_range}, 3, 0xffffffff, 0;
        $user->[0] eq q{} or $become->(@$user) or $give_up->( *STDERR, 'identity' );
        # Entered as root before: the path may have changed since the daemon looked at it. For root
        # itself, and without a user, that was the right of the program.
        !$user->[0] or chdir $directory or $give_up->( *STDERR, $directory );
        # Perl ignores it from its start on, and each program would.
        $SIG{FPE} = 'DEFAULT';
        my $environment = pack 'p*', @$variables, undef;
        my $name        = $words->[0];
        my ($path)      = map { /^PATH=(.*)/s } @$variables;
        my @prefixes    = map { $_ eq q{} ? $_ : "$_/" } split /:/, $path // q{}, -1;
        @prefixes = q{} if $name =~ m{/} || !@prefixes;
        my $denied = 0;
        $! = $enoent;
        for my $prefix ( $name eq q{} ? () : @prefixes ) {
            $become_file->( "$prefix$name", $environment, @$words );
            $is_elsewhere{ $! + 0 } or last;
            $denied ||= $! == $eacces;
        }
        $! = $eacces if $denied && $is_elsewhere{ $! + 0 };
        $give_up->( *STDERR, $name );
    };
    return ( $execute, $give_up );
};
