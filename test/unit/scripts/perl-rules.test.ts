import { expect, test } from "vitest";
import { findFaults, readCallNames } from "../../../scripts/perl-rules.ts";

const CALLS = new Set(["close"]);
const program = (line: string) => `# What it does.\n\nuse v5.14;\n\n${line}\n`;

test.for([
  "open( my $file, '<', $ARGV[0] ) or die \"$!\\n\";",
  "open( STDIN, '<&', $handle );",
  'exec { $ARGV[0] } @ARGV or fail("exec $ARGV[0]");',
  "eval { work(); 1 } or do { fail('work') };",
  "syscall( $call->{close}, $fd ) == 0 or fail('close');",
  'my $numbers = do $table or fail("cannot load $table");',
  "# A comment may say: use strict, eval $text, system('x') and `y`.",
  "$ok or open_folder( $at, 'use this' );",
])("%s is allowed", (line) => {
  expect(findFaults(program(line), CALLS)).toEqual([]);
});

test.for([
  ["use strict;", "loads a module"],
  ["require POSIX;", "loads a module"],
  ["eval $text;", "evaluates a string"],
  ['eval "work()";', "evaluates a string"],
  ["system 'ls -l';", "starts a shell"],
  ["exec @words;", "starts a shell"],
  ["my $list = `ls`;", "starts a shell"],
  ["open( my $file, $path );", "opens without a mode of its own"],
  ['open( my $file, "<$path" );', "opens without a mode of its own"],
  ["open my $file, '-|', @words;", "opens without a mode of its own"],
  ["syscall( 3, $fd );", "has a number for a system call"],
  ["syscall( $number, $fd );", "has a number for a system call"],
  ["do './other.pl';", "loads a file by another name"],
  ["syscall( $call->{shut}, $fd );", "calls shut, which is not in the table"],
  ["my $x = 1; ", "has space at its end, or what is not ASCII"],
  ["my $x = 'é';", "has space at its end, or what is not ASCII"],
  [`my $x = ${"1 + ".repeat(30)}1;`, "has more than 100 columns"],
] as const)("%s is a fault", ([line, fault]) => {
  expect(findFaults(program(line), CALLS)).toEqual([`5: ${fault}`]);
});

test("a program needs a header, strictures first and a bound on its lines", () => {
  expect(findFaults("use v5.14;\n", CALLS)).toEqual(["1: has no header"]);
  expect(findFaults("# What it does.\nmy $x = 1;\nuse v5.14;\n", CALLS)).toEqual([
    "1: does not begin with `use v5.14;`",
  ]);
  expect(findFaults(program("1;\n".repeat(300)), CALLS)).toEqual(["305: has too many lines"]);
});

test("the names of the table are read from its rows", () => {
  const table = "my %number = (\n    close             => [ 3,       57 ],\n);\n";
  expect(readCallNames(table)).toEqual(CALLS);
});
