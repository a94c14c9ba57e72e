/** The command that installs what is missing is one of this system, or names the packages alone. */

import { expect, test } from "vitest";
import { installCommand } from "../../../src/engine/host/install-command.ts";

test.for([
  { manager: "apt-get", says: /(?:^|')apt-get update && apt-get install -y runc crun / },
  { manager: "dnf", says: /(?:^|sudo )dnf install -y crun runc / },
  { manager: "pacman", says: /^install, by the names of Debian, what is missing of runc crun / },
])("with $manager", ({ manager, says }) => {
  const find = (name: string) => (name === manager ? `/usr/bin/${name}` : undefined);
  expect(installCommand(find)).toMatch(says);
});
