# Ends the containers of one service that died. The service starts it with its first container and
# holds the other end of its standard input: the line `end` ends it, the end of the input without
# that line means that the service is gone. It is a shell program for its memory, which a perl
# program exceeds three times.
#
# Arguments: the rule, the folder of the instance, and the folders of our cgroups in the unified
# tree and in the old freezer, each `-` where there is none. Without root, the file `cgroup` of a
# container names its folder in the unified tree; one without any cgroup is found by its first process. Rule `kill`: each container ends at once. Rule `leave`: each container ends,
# or is frozen, at the time in its file `expiry`: Unix seconds and `end` or `freeze`, and in a second
# line the same moment in seconds since the start of the machine, which counts, because the wall clock
# may be set. One without the file was never finished and ends at once. The program ends when nothing is left for it to do.
# A container that a dying service was about to start may come late, so that several rounds must
# find none.

rule=$1 instance=$2 unified=$3 freezer=$4
rounds_without=3 longest_sleep=5

# Sets `pid`; fails when there is no such process.
find_first() {
    pid='' ticks='' stat=''
    if read -r pid ticks <"$1/process"; then
        while read -r line || [ -n "$line" ]; do stat="$stat $line"; done <"/proc/$pid/stat"
        # The name of a program may hold anything: fields are counted from its end.
        set -- ${stat##*\) }
        [ "$1" != Z ] && [ "$1" != X ] && [ -n "$ticks" ] && [ "${20}" = "$ticks" ]
        return
    fi
    # The runtime ends the file without a line's end.
    if read -r pid <"$1/runtime/pid" || [ -n "$pid" ]; then
        case $pid in *[!0-9]* | 1) return 1 ;; esac
        is_inside "$pid"
        return
    fi
    find_untold "${1##*/}"
}

is_inside() {
    [ -e "/proc/$1/ns/pid" ] && ! [ "/proc/$1/ns/pid" -ef /proc/self/ns/pid ]
}

# A runtime that was killed may have told of no process: the id of the container is the last word of
# its command and of that of the first process. A shell leaves out the zero bytes between words.
find_untold() {
    for process in /proc/[0-9]*; do
        pid=${process#/proc/} words=''
        is_inside "$pid" || continue
        while read -r line || [ -n "$line" ]; do words=$line; done <"$process/cmdline"
        case $words in *"$1") ;; *) continue ;; esac
        while read -r key line; do
            [ "$key" = NSpid: ] && [ "${line##*[!0-9]}" = 1 ] && return
        done <"$process/status"
    done
    return 1
}

# Sets `group`, the folder of the container in the unified tree, empty where it has none: one that was
# made while that tree was not mounted is in the old freezer alone.
find_group() {
    group=''
    if [ "$unified" != - ]; then
        { [ ! -d "$unified/$1" ] && [ -d "$freezer/$1" ]; } || group=$unified/$1
    elif [ "$freezer" = - ]; then
        read -r group <"$2/cgroup"
        case $group in /*/"$1") ;; *) group='' ;; esac
    fi
}

lives() {
    find_group "$1" "$2"
    if [ -n "$group" ]; then
        while read -r key value; do
            [ "$key $value" = 'populated 1' ] && return 0
        done <"$group/cgroup.events"
        return 1
    fi
    if [ "$freezer" != - ]; then
        read -r pid <"$freezer/$1/cgroup.procs" && [ -n "$pid" ]
        return
    fi
    find_first "$2"
}

signal_group() {
    while read -r pid; do kill -KILL "$pid"; done <"$1/cgroup.procs"
}

end_container() {
    if [ -n "$group" ]; then
        # Kernels before 5.14 have no such file.
        echo 1 >"$group/cgroup.kill" || signal_group "$group"
    elif [ "$freezer" != - ]; then
        echo FROZEN >"$freezer/$1/freezer.state"
        signal_group "$freezer/$1"
        echo THAWED >"$freezer/$1/freezer.state"
    else
        # With the first process the kernel ends all of its namespace.
        find_first "$2" && kill -KILL "$pid"
    fi
}

# A process that is not stopped yet may have started another meanwhile: hence the second round.
stop_namespace() {
    find_first "$1" || return
    for round in 1 2; do
        for process in /proc/[0-9]*; do
            [ "$process/ns/pid" -ef "/proc/$pid/ns/pid" ] && kill -STOP "${process#/proc/}"
        done
    done
}

# Its number may be another process's by now, which the signal would end.
is_relay() {
    words=''
    while read -r line || [ -n "$line" ]; do words=$words$line; done <"/proc/$2/cmdline"
    case $words in *sentry-relay.pl*"$1"*) return 0 ;; esac
    return 1
}

freeze_container() {
    # A kernel of its own is paused by the program beside it, and never frozen: it would not survive.
    if read -r pid <"$2/runtime/relay"; then
        is_relay "$1" "$pid" && kill -USR1 "$pid"
    elif [ -n "$group" ]; then
        echo 1 >"$group/cgroup.freeze"
    elif [ "$freezer" != - ]; then
        echo FROZEN >"$freezer/$1/freezer.state"
    else
        stop_namespace "$2"
    fi
}

# Does what is due for one container that lives, and says in `sleep` when the next look is due.
look_at() {
    at=0 action=end boot=0
    [ "$rule" = leave ] && { read -r at action && read -r boot; } <"$2/expiry"
    case $at in '' | *[!0-9]*) at=0 action=end boot=0 ;; esac
    # An older service wrote no second line, and a file system that feigns /proc/uptime may have died.
    case $boot in *[!0-9]*) boot='' ;; esac
    case $boot:$uptime in :* | *:) now=$(date +%s) ;; *) at=$boot now=$uptime ;; esac
    if [ "$at" -gt "$now" ]; then
        left=1
        [ $((at - now)) -lt "$sleep" ] && sleep=$((at - now))
    elif [ "$action" = freeze ]; then
        freeze_container "$1" "$2"
    else
        end_container "$1" "$2"
        left=1 sleep=1
    fi
}

trap '' HUP INT PIPE
# By this folder, also after a move of the home.
cd "$instance" || exit
while read -r word; do
    [ "$word" = end ] && exit 0
done

without=0
while :; do
    # The file of a later service names its own: that one did not find this program.
    read -r pid rest <guardian && case $pid in *[!0-9]*) ;; "$$" | '') ;; *) exit 0 ;; esac
    left=0 sleep=$longest_sleep
    # It counts the time in which the machine is suspended, too.
    uptime=''
    read -r uptime rest </proc/uptime
    uptime=${uptime%.*}
    for folder in s/*; do
        id=${folder##*/}
        case $id in *[!a-z0-9]*) continue ;; esac
        lives "$id" "$folder" && look_at "$id" "$folder"
    done
    if [ "$left" = 0 ]; then
        sleep=1 without=$((without + 1))
        [ "$without" -ge "$rounds_without" ] && exit 0
    else
        without=0
    fi
    sleep "$sleep"
done
