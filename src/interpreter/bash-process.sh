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
__trace=
# An interrupt ends the cell; programs that it runs end by the signal itself.
trap 'return 130 2>/dev/null' INT
builtin printf 'ready\n' >&201
# Up to a delimiter bash reads a pipe byte by byte, so a cell, which may be long, comes with its size.
# Bash warns of a locale of the cell's own that is not there each time that it goes back to it.
while IFS= builtin read -r -d '' -u 200 __news && IFS= builtin read -r -d '' -u 200 __before && IFS=' ' builtin read -r -d '' -a __names -u 200 &&
  IFS= builtin read -r -d '' -u 200 __size && { IFS= LC_ALL=C builtin read -r -N "$__size" -u 200 __code; } 2>/dev/null; do
  builtin eval "$__news"
  __after=
  for __name in "${__names[@]}"; do
    if [[ -v $__name ]]; then builtin printf -v __after '%sbuiltin export %q=%q\n' "$__after" "$__name" "${!__name}"
    else __after+="builtin unset $__name"$'\n'; fi
  done
  builtin eval "$__before"
  # Set anew for each cell: bash runs a trap no second time that was left by its return.
  builtin trap 'return 130 2>/dev/null' INT
  # Without the descriptors of this loop, which a program in the background would hold. Where a cell has
  # asked for traces, they are those of cells alone; lines keep their numbers.
  builtin source <(builtin printf '%s' "$__trace$__code") 200<&- 201>&-
  { __status=$? __flags=$-; builtin set +x; } 2>/dev/null
  __trace=
  [[ $__flags != *x* ]] || __trace='set -x;'
  builtin eval "$__after"
  if ((__status != 0)); then
    builtin printf '{"type":"error","name":"ExitStatus","value":"%d","traceback":""}\n' "$__status" >&201
  fi
  builtin printf '{"type":"done"}\n' >&201
done
