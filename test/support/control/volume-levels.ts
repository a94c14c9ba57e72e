/** The kinds of volumes that a service makes here: those of the machine's root have disks. */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { isRootless } from "../../../src/common/privilege.ts";
import { PERL_DIRECTORY } from "../perl-directory.ts";
import type { TestService } from "../service.ts";

/** The smallest that a service takes. */
export const VOLUME_MB = 64;

export interface VolumeLevel {
  readonly name: string;
  readonly options: {
    readonly volumes?: { readonly sizeMb: number; readonly perlDirectory: string };
  };
  /** Where files are that become part of a volume when they are complete. */
  drafts(home: string, volumeId: string): string;
}

const FOLDERS: VolumeLevel = {
  name: "folders",
  options: {},
  drafts: (home) => join(home, "volumes"),
};

export const DISKS: VolumeLevel = {
  name: "disks",
  options: { volumes: { sizeMb: VOLUME_MB, perlDirectory: PERL_DIRECTORY } },
  drafts: (home, volumeId) => join(home, "volume-disks", volumeId, "disk/drafts"),
};

export const VOLUME_LEVELS: readonly VolumeLevel[] = isRootless() ? [FOLDERS] : [FOLDERS, DISKS];

/** Where the content of a volume is that was used a moment ago. */
export function volumeDirectory({ home }: Pick<TestService, "home">, volumeId: string): string {
  const folder = join(home, "volumes", volumeId);
  return existsSync(folder) ? folder : join(home, "volume-disks", volumeId, "disk", volumeId);
}
