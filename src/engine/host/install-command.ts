/** The one line that installs every helper program of the host, for who runs this program. */

import { isRootless } from "../../common/privilege.ts";
import { findProgram } from "./find-program.ts";
import { findRelease, readSystem } from "./system-release.ts";

/** By their Debian names; what is there already stays as it is. */
const PACKAGES =
  "runc crun mmdebstrap gpg util-linux e2fsprogs xfsprogs perl-base " +
  "nftables iproute2 skopeo slirp4netns uidmap";
const DEBIAN = `apt-get update && apt-get install -y ${PACKAGES}`;
const FEDORA =
  "dnf install -y crun runc perl-interpreter util-linux e2fsprogs xfsprogs nftables iproute shadow-utils " +
  "skopeo slirp4netns";
/** Of a system with another package manager, whose names for them may differ. */
const OTHERS = `install, by the names of Debian, what is missing of ${PACKAGES}`;

/** All of them at once, so that a user is not told of one after the other. */
export function installCommand(find: typeof findProgram = findProgram): string {
  if (find("apt-get") !== undefined) return asRoot(DEBIAN);
  return find("dnf") === undefined ? OTHERS : asRoot(FEDORA);
}

/** The command as this user can type it. */
function asRoot(command: string): string {
  if (!isRootless()) return command;
  return command.includes("&&") ? `sudo sh -c '${command}'` : `sudo ${command}`;
}

/** The release of Debian whose backports have a runsc that is new enough. */
const WITH_BACKPORT = "bookworm";

/**
 * What brings the runtime of the level gvisor, where this system has a package that is new enough.
 * A new Debian has no backports among its sources. The file of sources is not named: clients of a
 * service read this too, and see `(path)` in place of a path.
 */
export function gvisorCommand(system: string = readSystem()): string {
  if (findRelease(system) !== WITH_BACKPORT) {
    return "install runsc: https://gvisor.dev/docs/user_guide/install/";
  }
  const backports = `${WITH_BACKPORT}-backports`;
  const install = asRoot(`apt-get update && apt-get install -t ${backports} runsc`);
  return `add ${backports} to the sources of apt, then: ${install}`;
}
