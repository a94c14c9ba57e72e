/**
 * What the ready commands of the official clients call (`waitForPort`, `waitForProcess`, `waitForURL`),
 * as shell functions for a template that does not have the program: without them such a command
 * fails until its time is over, however well the start command runs.
 */

/**
 * Of tcp sockets those that listen, of udp sockets those that are bound, as `ss -Htuln` lists them.
 * `read` asks the kernel for the whole table again at each line; `mapfile` does not.
 */
const SS = `type -P ss >/dev/null || ss() {
  local port= kind lines line
  [[ \${1-} =~ ^-H?tuln$ ]] || { echo "no ss in this template" >&2; return 127; }
  [[ $* =~ sport\\ *=\\ *:([0-9]+) ]] && port=\${BASH_REMATCH[1]}
  for kind in tcp tcp6 udp udp6; do
    lines=()
    mapfile -t lines <"/proc/net/$kind"
    for line in "\${lines[@]:1}"; do
      set -- $line
      case $kind:$4 in tcp*:0A | udp*:07) ;; *) continue ;; esac
      set -- $((16#\${2##*:}))
      [[ -z $port || $1 == "$port" ]] && echo "\${kind%6} LISTEN 0 0 *:$1 *:*"
    done
  done 2>/dev/null
  return 0
}`;

/** By the name of the program, as a regular expression. */
const PGREP = `type -P pgrep >/dev/null || pgrep() {
  local folder name result=1
  [[ $# == 1 ]] || { echo "no pgrep in this template" >&2; return 127; }
  for folder in /proc/[0-9]*; do
    [[ \${folder##*/} == "$$" || \${folder##*/} == "$BASHPID" ]] && continue
    read -r name <"$folder/comm" && [[ $name =~ $1 ]] && echo "\${folder##*/}" && result=0
  done 2>/dev/null
  return "$result"
}`;

/** The status alone, of a server of plain HTTP. */
const CURL = `type -P curl >/dev/null || curl() {
  local at status=000
  [[ "\${*:1:5}" == "-s -o /dev/null -w %{http_code}" && \${6-} =~ ^http://([^/:]+)(:([0-9]+))?(/.*)?$ ]] ||
    { echo "no curl in this template" >&2; return 127; }
  at=("\${BASH_REMATCH[1]}" "\${BASH_REMATCH[3]:-80}" "\${BASH_REMATCH[4]:-/}")
  { exec 3<>"/dev/tcp/\${at[0]}/\${at[1]}"; } 2>/dev/null || { printf %s "$status"; return 7; }
  printf 'GET %s HTTP/1.0\\r\\nHost: %s:%s\\r\\n\\r\\n' "\${at[2]}" "\${at[0]}" "\${at[1]}" >&3
  read -r -t 5 _ status _ <&3
  exec 3>&-
  printf %s "$status"
}`;

/** The command, with a stand-in for each program that it names and the template may lack. */
export function withReadyPrograms(command: string): string {
  const needed = [
    { name: "ss", text: SS },
    { name: "pgrep", text: PGREP },
    { name: "curl", text: CURL },
  ].filter(({ name }) => new RegExp(`\\b${name}\\b`).test(command));
  return [...needed.map(({ text }) => text), command].join("\n");
}
