# The process of a bash kernel: sources one cell after the other, so that variables, functions and the
# working directory stay. Arguments: the descriptors of questions and of answers.
# A cell may define functions with the names of commands: those of this program are `builtin`.
# Either may come as 200 or 201 itself, so both move below these first, to numbers that bash chooses.
exec {__in}<&"$1" {__out}>&"$2"
eval "exec $1<&- $2>&-"
exec 200<&"$__in" 201>&"$__out" {__in}<&- {__out}>&-
unset __in __out
set --
HISTFILE=
__begin=
__restored=
# An interrupt ends the cell; programs that it runs end by the signal itself.
trap 'return 130 2>/dev/null' INT
builtin printf 'ready\n' >&201
# A round for each cell that is answered. The kernel ends instead of a wait for ever after one that leaves
# this loop no commands (`set -n`, `trap false DEBUG` with `extdebug`, a function `builtin`) or leaves it
# (`continue 2`): only the expressions of such a loop are evaluated whatever the cell has set.
for ((__rounds = 1; __rounds; __rounds--)); do
  __size=
  # Up to a delimiter bash reads a pipe byte by byte, so a cell, which may be long, comes with its size.
  # Bash warns of a locale of the cell's own that is not there each time that it goes back to it. The time
  # limit of reads that a cell may set is for its own.
  if IFS= TMOUT= builtin read -r -d '' -u 200 __news && IFS= builtin read -r -d '' -u 200 __before && IFS=' ' builtin read -r -d '' -a __names -u 200 &&
    IFS= builtin read -r -d '' -u 200 __size && IFS= builtin read -r -d '' -u 200 __number && { IFS= LC_ALL=C builtin read -r -N "$__size" -u 200 __code; } 2>/dev/null && [[ -n $__size ]]; then
    builtin eval "$__news"
    __after=
    for __name in "${__names[@]}"; do
      if [[ -v $__name ]]; then builtin printf -v __after '%s\\builtin export %q=%q\n' "$__after" "$__name" "${!__name}"
      else __after+="\\builtin unset $__name"$'\n'; fi
    done
    builtin eval "$__before"
    # Set anew for each cell: bash runs a trap no second time that was left by its return.
    builtin trap 'return 130 2>/dev/null' INT
    [[ -z $__restored ]] || builtin set "-$__restored"
    # A loop of its own, for a `break` or `continue` outside of the cell's loops. Without the descriptors
    # of this loop, which a program in the background would hold. Lines of the cell keep their numbers.
    for __name in cell; do
      builtin source <(builtin printf '%s' "$__begin$__code") 200<&- 201>&-
    done
    # Traces and traps of cells are for cells alone, as are options that change or show what this loop reads.
    {
      __status=$? __flags=$- __traps=$(builtin trap -p RETURN ERR DEBUG)
      builtin trap - DEBUG ERR RETURN
      builtin set +xvk
    } >/dev/null 2>&1
    __begin= __restored=
    [[ -z $__traps ]] || __begin='\builtin eval "$__traps";'
    [[ $__flags != *x* ]] || __begin="\\builtin set -x;$__begin"
    [[ -z $__begin ]] || __begin="{ $__begin } 2>/dev/null;"
    [[ $__flags != *v* ]] || __restored+=v
    [[ $__flags != *k* ]] || __restored+=k
    builtin eval "$__after"
    if ((__status != 0)); then
      builtin printf '{"type":"error","name":"ExitStatus","value":"%d","traceback":""}\n' "$__status" >&201
    fi
    builtin printf '{"type":"done","number":%d}\n' "$__number" >&201 && __rounds=2
  fi
done
