/**
 * The programs of bash for steps that change a sandbox as root. What a client sent comes in as
 * positional parameters, never as text of a program.
 */

/**
 * $1 and $2 are written together with the exit code behind both streams (`createStepEnd`). Runs the other
 * parameters, and exits with 128 + n where a signal ended them, as shells do: of the daemon's own child it
 * would be -1, or 0 for a real-time signal, which Node does not report. The level is that of a shell
 * without one around it, and a variable here might be one of the step.
 */
export const STEP_SCRIPT = String.raw`
unset SHLVL
run() { shift 2; "$@"; }
end() { printf '%s%s %s\n' "$1" "$2" "$3"; return "$3"; }
run "$@"
end "$1" "$2" "$?" >&2
end "$1" "$2" "$?"
`;

/** Makes a folder with those above it, as docker does: each that is new has the owner `$owner`. */
const MAKE_FOLDER = String.raw`
make_folder() {
  [ ! -d "$1" ] || return 0
  make_folder "$(dirname -- "$1")"
  mkdir -- "$1"
  chown -- "$owner" "$1"
}
`;

/**
 * $1 archive, $2 source, $3 target (absolute), $4 owner, $5 mode or empty. The archive is unpacked
 * in a folder apart, where tar itself refuses absolute names and `..`.
 */
export const COPY_SCRIPT = String.raw`${MAKE_FOLDER}
set -eu -o pipefail
archive=$1 source=./$2 target=$3 owner=$4 mode=$5
lacks=
for program in awk find readlink sed tar; do
  command -v "$program" >/dev/null 2>&1 || lacks="$lacks $program"
done
[ -z "$lacks" ] || { echo "install what this image lacks for a copy, in a step before:$lacks" >&2; exit 1; }
unpacked=$(mktemp -d /tmp/.copy-XXXXXXXXXX)
trap 'rm -rf -- "$unpacked" "$archive"' EXIT
tar -xf "$archive" -C "$unpacked" --no-same-owner -p
rm -f -- "$archive"
cd "$unpacked"
root=$(pwd -P)
set -- "$source"
if [ ! -e "$source" ] && [ ! -L "$source" ]; then
  shopt -s nullglob dotglob globstar extglob
  IFS=
  set -- $source
  # A word that bash takes for no pattern stays as it is.
  [ $# != 1 ] || [ -e "$1" ] || [ -L "$1" ] || shift
  if [ $# = 0 ]; then
    # A pattern that only the client knows, such as braces: the archive holds what it matched.
    prefix=$(printf '%s' "$source" | sed 's/[[*?{!+@].*//')
    cd "$(dirname -- "$prefix"x)" && set -- ./*
  fi
  unset IFS
  shopt -u nullglob dotglob globstar extglob
fi
leads_out() { echo "the source leads out of the archive" >&2; exit 1; }
count=$#
for match; do
  # A pattern may match the folder itself and the one above it.
  case $match in */. | */..) [ $count = 1 ] || continue ;; esac
  set -- "$@" "$match"
done
shift "$count"
[ $# -gt 0 ] || { echo "no file in the archive matches the source" >&2; exit 1; }
for match; do
  # A link is copied as a link, unless a slash behind it means what it leads to.
  found=$match
  case $match in */) ;; *) [ ! -L "$match" ] || found=$(dirname -- "$match") ;; esac
  case $(readlink -f -- "$found")/ in "$root"/*) ;; *) leads_out ;; esac
done
case $owner in
*:*) ;;
*[!0-9]*)
  # The group of the same name, else that of the account.
  awk -F: -v name="$owner" '$1 == name { found = 1 } END { exit !found }' /etc/group &&
    owner=$owner:$owner || owner=$owner:$(id -g -- "$owner")
  ;;
*) owner=$owner:$owner ;;
esac
# A change of the owner clears the bits of set-user-id and set-group-id.
find -P "$@" -type f '(' -perm -4000 -o -perm -2000 ')' -exec bash -ec '
  mode=$(stat -c %a -- "$2"); chown -- "$1" "$2"; chmod -- "$mode" "$2"
' bash "$owner" {} ';' -o -exec chown -h -- "$owner" {} +
[ -z "$mode" ] || find -P "$@" -depth ! -type l -exec chmod -- "$mode" {} +
is_folder=
case $target in */) is_folder=1 ;; esac
[ $# = 1 ] || is_folder=1
for match; do
  if [ -d "$match" ] && [ ! -L "$match" ]; then
    make_folder "$target"
    # Folders merge, also through a link; the metadata of those that are there stays.
    if tar --version 2>/dev/null | grep -q GNU; then
      tar -C "$match" -cf - . |
        tar -C "$target" -xpf - --same-owner --no-overwrite-dir --keep-directory-symlink
    else
      # cp gives folders that are there the metadata of those that it copies, so these take theirs.
      (cd -- "$match" && find . -type d -exec bash -ec '
        for folder; do
          place=$0/$folder
          [ -d "$place" ] || continue
          chown -- "$(stat -Lc %u:%g -- "$place")" "$folder"
          chmod -- "$(stat -Lc %a -- "$place")" "$folder"
          touch -r "$place" -- "$folder"
        done
      ' "$target" {} +)
      cp -af "$match/." "$target/"
    fi
    continue
  fi
  place=$target
  if [ -n "$is_folder" ] || [ -d "$target" ]; then
    make_folder "$target"
    place=$target/$(basename -- "$match")
  else make_folder "$(dirname -- "$target")"; fi
  if [ -d "$place" ] && [ ! -L "$place" ]; then echo "$place is a folder" >&2; exit 1; fi
  rm -f -- "$place"
  cp -a -- "$match" "$place"
done
`;

/** $1 path (absolute), $2 owner, who gets the folders that are new with its group. */
export const WORKDIR_SCRIPT = String.raw`${MAKE_FOLDER}
set -eu
owner=$2:$(id -g -- "$2")
make_folder "$1"
`;

/**
 * $1 name or number, $2 "true" for sudo without a password, $3 a group or nothing: that of a number
 * without an account, else it is compared with that of the account. Prints the name of the account. One
 * that is made is in the group of its name, also where that is there before it.
 * The rule names the account by its number: sudo reads no file with a dot in its name, and takes names
 * as `Defaults` for words of its language. The stand-in of an image without sudo goes by the group.
 */
export const USER_SCRIPT = String.raw`
set -eu
has() { command -v "$1" >/dev/null 2>&1; }
account=$1 sudo=$2
shift 2
group=$* wanted=0 primary=root
# The number of a group, exactly of this name; nothing where there is none.
number_of() {
  while IFS=: read -r found _ number _ || [ -n "$found" ]; do
    if [ "$found" = "$1" ]; then
      printf '%s\n' "$number"
      break
    fi
  done < /etc/group
}
case $group in
'') ;;
*[!0-9]*)
  wanted=$(number_of "$group")
  primary=$group
  ;;
*)
  wanted=$group
  primary=$(sed -n "/^[^:]*:[^:]*:$group:/{s/:.*//p;q;}" /etc/group)
  ;;
esac
# $1 name, $2 number or nothing. As in docker, a number without an account is in the group root or in
# the one that was named.
add_account() {
  name=$1 uid=$2 own=
  if [ -z "$uid" ]; then
    own=$(number_of "$name")
    if [ -z "$own" ]; then set --
    elif has useradd; then set -- -g "$name"
    else set -- -G "$name"; fi
  else
    [ -n "$wanted" ] || { echo "there is no group $group" >&2; exit 1; }
    if [ -z "$primary" ]; then
      primary=group$wanted
      printf '%s:x:%s:\n' "$primary" "$wanted" >> /etc/group
    fi
    if has useradd; then set -- -u "$uid" -g "$wanted"
    else set -- -u "$uid" -G "$primary"; fi
  fi
  if has useradd; then useradd -m "$@" -s /bin/bash -- "$name" >&2
  elif has adduser; then adduser -D "$@" -s /bin/bash "$name" >&2
  else add_lines; fi
}
# A small image of the family of Fedora has neither program.
add_lines() {
  gid=$wanted home=/home/$name
  if [ -z "$uid" ]; then
    uid=1000
    while grep -q "^[^:]*:[^:]*:$uid:" /etc/passwd /etc/group; do uid=$((uid + 1)); done
    gid=$own
    if [ -z "$gid" ]; then
      gid=$uid
      printf '%s:x:%s:\n' "$name" "$gid" >> /etc/group
    fi
  fi
  printf '%s:x:%s:%s::%s:/bin/bash\n' "$name" "$uid" "$gid" "$home" >> /etc/passwd
  mkdir -p -- "$home"
  chown -- "$uid:$gid" "$home"
}
case $account in
*[!0-9]*) name=$account ;;
*) name=$(sed -n "/^[^:]*:[^:]*:$account:/{s/:.*//p;q;}" /etc/passwd) ;;
esac
if [ -z "$name" ]; then
  name=user$account
  add_account "$name" "$account"
fi
id -u -- "$name" >/dev/null 2>&1 || add_account "$name" ""
if [ "$sudo" = true ] && [ "$name" != root ]; then
  uid=$(id -u -- "$name")
  mkdir -p /etc/sudoers.d
  printf '#%s ALL=(ALL:ALL) NOPASSWD: ALL\n' "$uid" > "/etc/sudoers.d/90-$uid"
  chmod 0440 "/etc/sudoers.d/90-$uid"
  if [ -e /usr/local/lib/sandbox-mcp/sudo.sh ]; then
    if has usermod; then usermod -a -G sudo -- "$name" >&2
    elif has addgroup; then addgroup "$name" sudo >&2
    elif ! grep -q "^sudo:.*[:,]$name\(,\|\$\)" /etc/group; then
      sed -i -e "/^sudo:/s/:\$/:$name/;t" -e "/^sudo:/s/\$/,$name/" /etc/group
    fi
  fi
fi
if [ -n "$group" ]; then
  own=$(id -g -- "$name")
  # That of a new account was not there before.
  [ "$wanted" = "$own" ] || [ "$group" = "$(id -gn -- "$name")" ] ||
    echo "the group $group has no effect: that of $name is $own" >&2
fi
printf '%s\n' "$name"
`;
