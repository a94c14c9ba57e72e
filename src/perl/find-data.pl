# Says where a sparse file has data: lines of first byte and end. Its only argument is the file.
# Still needed: Node cannot seek, and filefrag of e2fsprogs tells blocks that were never written as
# data and knows only file systems with extents.

use v5.14;
# lseek(2): SEEK_DATA, SEEK_HOLE
my ( $data, $hole ) = ( 3, 4 );
open( my $file, '<', $ARGV[0] ) or die "$!\n";
for ( my $end = 0 ; my $start = sysseek $file, $end, $data ; print $start + 0, " $end\n" ) {
    $end = sysseek $file, $start, $hole or die "$!\n";
}
