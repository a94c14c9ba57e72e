/** Trees on a mount that runs no programs, or has no devices, as guides to hardening ask for. */

const SCRIPT =
  '{ mount --bind "$0" "$0" && mount -o remount,bind,exec,suid,dev "$0"; } 2> /dev/null; exec "$@"';

/**
 * Words before a command, in a mount namespace of its own: a folder whose programs run there. An
 * ordinary user cannot change what a mount allows; the command begins all the same.
 */
export function runnableIn(folder: string): readonly string[] {
  return ["sh", "-c", SCRIPT, folder];
}
