# Prints the table of system calls beside it: a line of name and number for each processor.

use v5.14;

my $table = $0 =~ s{[^/]*\z}{syscalls.pl}r;
my $numbers = do $table;
exit 1 if defined $numbers->('mips');
my ( $x64, $arm64 ) = map { $numbers->($_) } 'x64', 'arm64';
print "$_ $x64->{$_} $arm64->{$_}\n" for sort keys %$x64;
