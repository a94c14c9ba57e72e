/** Paths that were meant for a shell: a host's configuration and `--flag=~/x` pass them as they are. */

/** The home directory, and variables, at the beginning. */
const FOR_SHELL = /^(?:~[\w-]*|\$\w+|\$\{\w+\})(?:\/|$)/;

/** Whether a shell would have replaced its beginning; as it is, it would be below the current directory. */
export function isForShell(path: string): boolean {
  return FOR_SHELL.test(path);
}
