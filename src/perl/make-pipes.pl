# Makes named pipes for the daemon in a sandbox, named 1 to COUNT in a directory that it makes too,
# and closes its error output when they are there, or says there why not. When its input ends it
# removes what is left: the daemon, which removes all as it opens them, may be killed before. It
# loads no module: a sandbox may have none, or false ones. Arguments: Node's name of the processor,
# directory, count.
# Still needed: Node cannot make a pipe that has a name; mkfifo of coreutils would be one more
# program, with libraries of its own, for the daemon to carry beside the perl that it carries
# anyway.

use v5.14;

# What ends the daemon, or its process group, does not end this program before it has removed the
# directory.
setpgrp 0, 0 or die "setpgrp: $!\n";
$SIG{$_} = 'IGNORE' for qw(HUP INT PIPE TERM);

my $table = $0 =~ s{[^/]*\z}{syscalls.pl}r;
my $numbers = do $table or die "cannot load $table: ", $@ || $!, "\n";
my ( $arch, $directory, $count ) = @ARGV;
my $call = $numbers->($arch) or die "no support for $arch\n";
my ( $cwd, $fifo_mode ) = ( -100, 0010600 );
mkdir $directory, 0700 or die "mkdir: $!\n";
my @paths = map { "$directory/$_" } 1 .. $count;
for my $path (@paths) {
    next if syscall( $call->{mknodat}, $cwd, $path, $fifo_mode, 0 ) == 0;
    warn "mknod: $!\n";
    last;
}
close STDERR;
sysread STDIN, my $rest, 1;
unlink @paths;
rmdir $directory;
