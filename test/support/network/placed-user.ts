/** An ordinary user in a network of the test's own, with a tunnel device as udev leaves it. */

import type { OrdinaryUser } from "../ordinary-user.ts";

/** Some machines, such as one without udev, keep the device to root. */
const OPEN_TUNNEL =
  'f=$(mktemp -d) && mount -t tmpfs -o mode=755 none "$f" && mknod -m 666 "$f/tun" c 10 200 && ' +
  'mount --bind "$f/tun" /dev/net/tun && umount -l "$f" && rmdir "$f" && exec "$@"';
/** As the system manager sets it: everybody may ping. */
const PING = "sysctl -qw 'net.ipv4.ping_group_range=0 2147483647'";

const HIDE = {
  slirp4netns: 'mount --bind /dev/null "$(command -v slirp4netns)"',
  // Of root, with mode 0600.
  tunnel: 'f=$(mktemp) && mount --bind "$f" /dev/net/tun && rm "$f"',
} as const;

/** The same user; the program begins in this network namespace. */
export function placeUser(account: OrdinaryUser, namespace: string): OrdinaryUser {
  const enter = ["nsenter", `--net=${namespace}`, "unshare", "--mount"] as const;
  const script = `${PING} && ${OPEN_TUNNEL}`;
  const program = [...enter, "sh", "-c", script, "sh", ...account.program] as const;
  return { ...account, program: [...program] };
}

/** The same user; the program may not open the device, or there is no such program. */
export function placeUserWithout(
  account: OrdinaryUser,
  namespace: string,
  hidden: keyof typeof HIDE,
): OrdinaryUser {
  const [command, ...words] = placeUser(account, namespace).program;
  const hide = `${HIDE[hidden]} && exec "$@"`;
  const index = words.indexOf("setpriv");
  const inner = ["sh", "-c", hide, "sh"];
  return { ...account, program: [command, ...words.toSpliced(index, 0, ...inner)] };
}
