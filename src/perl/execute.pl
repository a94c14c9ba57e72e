# How a child becomes a program of a user, for the programs of this directory that start some. Each
# loads it by `do` from its own directory, and gets a function of the table of system calls. That
# one returns two others, of which the first gives up by the second and so never returns:
#       of a user, who is a list of uid, gid and groups with commas between, of variables and words:
#       changes the identity, unless the uid is empty, and executes the words
#       of a handle and of what failed, with the error in `$!`: tells it there as a shell would, and
#       ends the process

use v5.14;

my $enoent = 2;

return sub {
    my $call = $_[0];

    # At once, since perl itself would tidy up aloud.
    my $give_up = sub {
        my ( $handle, $what, $code ) = ( @_, $! + 0 );
        syswrite $handle, "sh: $what: " . ( $code == $enoent ? 'not found' : "$!" ) . "\n";
        syscall( $call->{exit_group}, $code == $enoent ? 127 : 126 );
    };

    my $become = sub {
        my ( $uid, $gid, $groups ) = @_;
        my $list = pack 'L*', my @ids = split /,/, $groups;
        syscall( $call->{setgroups}, scalar @ids, $list ) == 0 or return 0;
        syscall( $call->{setresgid}, $gid + 0, $gid + 0, $gid + 0 ) == 0 or return 0;
        return syscall( $call->{setresuid}, $uid + 0, $uid + 0, $uid + 0 ) == 0;
    };

    my $execute = sub {
        my ( $user, $variables, $words ) = @_;
        $user->[0] eq q{} or $become->(@$user) or $give_up->( *STDERR, 'identity' );
        %ENV = ();
        for (@$variables) { $ENV{$1} = $2 if /^([^=]*)=(.*)$/s }
        $! = $enoent;
        exec { $words->[0] } @$words if $words->[0] ne q{};
        $give_up->( *STDERR, $words->[0] );
    };
    return ( $execute, $give_up );
};
