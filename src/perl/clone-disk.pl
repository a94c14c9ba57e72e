# Copies the image of a mounted disk to a new file that shares its blocks. Arguments: Node's name of
# the processor, the mount point, the image, the new file. It brings the disk up to date and says
# `ready`; when it reads a line, programs do not write any more: it writes the rest back, shares the
# blocks, says `cloned`, brings the new file to disk and ends. perl-base alone must be enough.
# Still needed: Node cannot sync a file system, and cp(1) does not say when it begins.
# What it made stays when it fails: its caller removes the folder.

use v5.14;

my $bad_status = 111;

sub complain { print STDERR "clone-disk: $_[0]\n"; exit $bad_status }
sub fail { complain("$_[0]: $!") }

my ( $arch, $mount, $image, $target ) = @ARGV;
my $table = $0 =~ s{[^/]*\z}{syscalls.pl}r;
my $numbers = do $table or complain( "cannot load $table: " . ( $@ || $! ) );
my $call = $numbers->($arch) or complain('no support for this processor');

sub write_back {
    my ($folder) = @_;
    syscall( $call->{syncfs}, fileno $folder ) == 0 or fail('syncfs');
}

sysopen( my $folder, $mount, $call->{O_DIRECTORY} ) or fail('open mount');
sysopen( my $from, $image, 0 ) or fail('open image');
# O_RDWR, O_CREAT, O_EXCL
sysopen( my $to, $target, 0x2 | 0x40 | 0x80, 0600 ) or fail('new file');
write_back($folder);
print STDERR "ready\n";
defined( readline STDIN ) or exit $bad_status;
write_back($folder);
# FICLONE
ioctl( $to, 0x40049409, fileno $from ) or fail('share blocks');
print STDERR "cloned\n";
# What follows waits for this: the copy is there after a power cut.
syscall( $call->{fsync}, fileno $to ) == 0 or fail('fsync');
