# The one table of system calls: their numbers in the kernel's ABI by the kernel's names, and the
# flags of open(2) that differ between processors. Each program of this directory loads it by `do`
# from its own directory and takes the column of its processor, by Node's name of that.

use v5.14;

#                         x64      arm64
my %number = (
    clock_gettime     => [ 228,     113 ],
    close             => [ 3,       57 ],
    close_range       => [ 436,     436 ],
    execve            => [ 59,      221 ],
    exit_group        => [ 231,     94 ],
    fchownat          => [ 260,     54 ],
    fsync             => [ 74,      82 ],
    getsid            => [ 124,     156 ],
    getxattr          => [ 191,     8 ],
    inotify_add_watch => [ 254,     27 ],
    inotify_init1     => [ 294,     26 ],
    inotify_rm_watch  => [ 255,     28 ],
    ioctl             => [ 16,      29 ],
    lgetxattr         => [ 192,     9 ],
    listxattr         => [ 194,     11 ],
    llistxattr        => [ 195,     12 ],
    lremovexattr      => [ 198,     15 ],
    lsetxattr         => [ 189,     6 ],
    memfd_create      => [ 319,     279 ],
    mkdirat           => [ 258,     34 ],
    mknodat           => [ 259,     33 ],
    mmap              => [ 9,       222 ],
    mount             => [ 165,     40 ],
    mount_setattr     => [ 442,     442 ],
    move_mount        => [ 429,     429 ],
    open_tree         => [ 428,     428 ],
    openat            => [ 257,     56 ],
    personality       => [ 135,     92 ],
    pidfd_open        => [ 434,     434 ],
    ppoll             => [ 271,     73 ],
    prctl             => [ 157,     167 ],
    pread64           => [ 17,      67 ],
    preadv2           => [ 327,     286 ],
    prlimit64         => [ 302,     261 ],
    pwrite64          => [ 18,      68 ],
    removexattr       => [ 197,     14 ],
    rt_sigaction      => [ 13,      134 ],
    rt_sigprocmask    => [ 14,      135 ],
    rt_sigtimedwait   => [ 128,     137 ],
    sched_getscheduler => [ 145,    120 ],
    sched_setscheduler => [ 144,    119 ],
    sendmsg           => [ 46,      211 ],
    setgroups         => [ 116,     159 ],
    setns             => [ 308,     268 ],
    setresgid         => [ 119,     149 ],
    setresuid         => [ 117,     147 ],
    setsid            => [ 112,     157 ],
    setxattr          => [ 188,     5 ],
    statx             => [ 332,     291 ],
    sync_file_range   => [ 277,     84 ],
    syncfs            => [ 306,     267 ],
    umount2           => [ 166,     39 ],
    unshare           => [ 272,     97 ],
    utimensat         => [ 280,     88 ],
    O_DIRECT          => [ 0x4000,  0x10000 ],
    O_DIRECTORY       => [ 0x10000, 0x4000 ],
    O_NOFOLLOW        => [ 0x20000, 0x8000 ],
);

my %column = ( x64 => 0, arm64 => 1 );

# The column of a processor; undefined for any other one.
return sub {
    my $column = $column{ $_[0] // q{} };
    return defined $column ? { map { $_ => $number{$_}[$column] } keys %number } : undef;
};
