# Makes named pipes for the daemon in a sandbox, named 1 to COUNT in a directory. It loads no
# module: a sandbox may have none, or false ones. Arguments: Node's name of the processor,
# directory, count.
# Still needed: Node cannot make a pipe that has a name; mkfifo of coreutils would be one more
# program, with libraries of its own, for the daemon to carry beside the perl that it carries
# anyway.

use v5.14;

my $table = $0 =~ s{[^/]*\z}{syscalls.pl}r;
my $numbers = do $table or die "cannot load $table: ", $@ || $!, "\n";
my ( $arch, $directory, $count ) = @ARGV;
my $call = $numbers->($arch) or die "no support for $arch\n";
my ( $cwd, $fifo_mode ) = ( -100, 0010600 );
for my $name ( 1 .. $count ) {
    my $path = "$directory/$name";
    syscall( $call->{mknodat}, $cwd, $path, $fifo_mode, 0 ) == 0 or die "mknod: $!\n";
}
