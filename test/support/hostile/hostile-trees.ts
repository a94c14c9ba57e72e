/** Trees that are hard to remove, made by a program that goes by folders: no path is ever long. */

import { execFile } from "node:child_process";
import { promisify } from "node:util";

const run = promisify(execFile);
const BUILD_LIMIT_MS = 120_000;

/**
 * Makes trees below a folder, one for each seed, named by it. Each has folders and files of odd
 * names and modes, links to `decoy`, pipes and sockets, and one in eight is deep.
 */
export async function makeHostileTrees(
  folder: string,
  options: { readonly seeds: readonly number[]; readonly decoy: string; readonly depth?: number },
): Promise<void> {
  const { seeds, decoy, depth = 80 } = options;
  await run("perl", ["-e", BUILDER, folder, decoy, String(depth), ...seeds.map(String)], {
    timeout: BUILD_LIMIT_MS,
  });
}

/** Makes one folder inside the other. */
export async function makeDeepTree(folder: string, levels: number): Promise<void> {
  await run("perl", ["-e", DEEP, folder, String(levels)], { timeout: BUILD_LIMIT_MS });
}

const DEEP = String.raw`
use strict;
my ($folder, $levels) = @ARGV;
chdir $folder or die $!;
for my $level (1 .. $levels) {
  my $name = $level % 50 ? 'd' : 'x' x 255;
  mkdir $name or die $!;
  open(my $file, '>', 'file') or die $!;
  chdir $name or die $!;
}`;

const BUILDER = String.raw`
use strict;
my ($top, $decoy, $depth, @seeds) = @ARGV;
my @names = ("\xff\xfe", "a\nb", ' ', '-rf', '...', 'x' x 255, "\xe2\x80\xae", "'", '"', '*', "tab\t", '~');
sub name { my $count = shift; return int(rand 2) ? "n$count" : $names[int rand @names] . ($count % 10) }
sub fill {
  my ($left) = @_;
  for my $count (1 .. 1 + int rand 6) {
    my $name = substr name($count), -255;
    my $kind = int rand 8;
    if ($kind == 0) { symlink $decoy, $name }
    elsif ($kind == 1) { symlink '..', $name }
    elsif ($kind == 2) { system 'mkfifo', "./$name" if int(rand 4) == 0 }
    elsif ($kind == 3) { link "$decoy/hard", $name }
    elsif ($kind < 6) { open(my $file, '>', $name) or next; chmod int(rand 2) ? 0 : 0444, $file }
    elsif ($left > 0 && mkdir $name) {
      chdir "./$name" or die $!;
      fill($left - 1);
      chdir '..' or die $!;
      chmod((0, 0100, 0400, 0500, 01777, 02755)[int rand 6], "./$name");
    }
  }
}
for my $seed (@seeds) {
  srand $seed;
  chdir $top or die $!;
  mkdir "tree$seed" or die $!;
  chdir "tree$seed" or die $!;
  fill(4);
  next if $seed % 8;
  for my $level (1 .. $depth) {
    mkdir 'deep' or die $!;
    chdir 'deep' or die $!;
    fill(0) if $level % 16 == 0;
  }
}`;
