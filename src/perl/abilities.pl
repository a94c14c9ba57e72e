# A first program in the trial of a runtime with a kernel of its own: writes what this kernel lets
# programs do, a word and its value in each line, and becomes the command that is given. Arguments:
# Node's name of the processor, the file to write, a path for a program with the set-id bit, and the
# command.
# Still needed: what root's programs and set-id bits are to other users shows inside alone, as such
# a user, and in the trial there is no other program than the daemon's.

use v5.14;

my $table = $0 =~ s{[^/]*\z}{syscalls.pl}r;
my $numbers = do $table or die "cannot load $table: ", $@ || $!, "\n";
my ( $arch, $file, $set_id, @command ) = @ARGV;
my $call = $numbers->($arch) or die "no support for $arch\n";
my ($directory) = $0 =~ m{\A(.*)/} or die "no directory\n";
my ( $nobody, $gained, $seen ) = ( 65_534, 10, 20 );

sub first_line {
    my ($path) = @_;
    open( my $input, '<', $path ) or return '';
    chomp( my $line = <$input> // '' );
    return $line;
}

sub copy {
    my ( $source, $target ) = @_;
    open( my $input, '<', $source ) or die "$source: $!\n";
    open( my $output, '>', $target ) or die "$target: $!\n";
    binmode $_ for $input, $output;
    local $/ = \65_536;
    while ( my $block = <$input> ) {
        syswrite( $output, $block ) == length $block or die "$target: $!\n";
    }
    close $output or die "$target: $!\n";
}

# The exit code of what an ordinary user does.
sub as_nobody {
    my ($action) = @_;
    defined( my $pid = fork ) or die "fork: $!\n";
    if ( $pid == 0 ) {
        $) = "$nobody $nobody";
        ( $(, $<, $> ) = ( $nobody, $nobody, $nobody );
        exit 1 if $> != $nobody || $< != $nobody;
        exit $action->();
    }
    waitpid $pid, 0;
    return $? >> 8;
}

# By the loader, which is what runs each program of this directory.
copy( "$directory/loader", $set_id );
chmod( 04755, $set_id ) == 1 or die "$set_id: $!\n";
my @asks = ( $set_id, '--library-path', "$directory/lib", "$directory/perl" );
push @asks, '-e', "exit( \$> == 0 ? $gained : 1 )";
my $rights = as_nobody( sub { exec { $set_id } @asks or return 1 } );
my ( $name, $value ) = qw(user.ability value);
my $is_kept = syscall( $call->{setxattr}, $set_id, $name, $value, length $value, 0 ) == 0;
unlink $set_id;

# Its own is that of root's first process.
my $environment = as_nobody(
    sub {
        open( my $input, '<', '/proc/1/environ' ) or return 1;
        return ( sysread( $input, my $byte, 1 ) // 0 ) > 0 ? $seen : 1;
    }
);

my ($kernel) = first_line('/proc/version') =~ /\A\S+ version (\S+)/;
# The last /proc is what programs see.
open( my $mounts, '<', '/proc/mounts' ) or die "mounts: $!\n";
my ($proc) = reverse grep { m{\A\S+ /proc } } <$mounts>;
close $mounts;
my @lines = (
    'kernel ' . ( $kernel // 'unknown' ),
    'boot-id ' . first_line('/proc/sys/kernel/random/boot_id'),
    'set-id ' . ( $rights == $gained ? 'effective' : 'ignored' ),
    'attributes ' . ( $is_kept ? 'kept' : 'refused' ),
    'environment ' . ( $environment == $seen ? 'open' : 'closed' ),
    'proc ' . ( ( $proc // '' ) =~ /dentry_cache_limit=\d{1,2}\b/ ? 'bounded' : 'unbounded' ),
);
open( my $output, '>', $file ) or die "$file: $!\n";
print {$output} map { "$_\n" } @lines or die "$file: $!\n";
close $output or die "$file: $!\n";
exec { $command[0] } @command or die "$command[0]: $!\n";
