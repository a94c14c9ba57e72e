/** The command that installs what is missing is one of this system, or names the packages alone. */

import { expect, test } from "vitest";
import { gvisorCommand, installCommand } from "../../../src/engine/host/install-command.ts";

test.for([
  { manager: "apt-get", says: /(?:^|')apt-get update && apt-get install -y runc crun / },
  { manager: "dnf", says: /(?:^|sudo )dnf install -y crun runc / },
  { manager: "pacman", says: /^install, by the names of Debian, what is missing of runc crun / },
])("with $manager", ({ manager, says }) => {
  const find = (name: string) => (name === manager ? `/usr/bin/${name}` : undefined);
  expect(installCommand(find)).toMatch(says);
});

test.for([
  {
    system: "ID=debian\nVERSION_CODENAME=bookworm\n",
    says: /^add bookworm-backports to the sources of apt, then: (?:sudo sh -c ')?apt-get update && apt-get install -t bookworm-backports runsc/,
  },
  { system: "ID=debian\nVERSION_CODENAME=trixie\n", says: /^install runsc: https:/ },
  { system: "ID=ubuntu\nVERSION_CODENAME=noble\n", says: /^install runsc: https:/ },
  { system: "ID=fedora\n", says: /^install runsc: https:/ },
])("no package of another release is named: $system", ({ system, says }) => {
  expect(gvisorCommand(system)).toMatch(says);
});
