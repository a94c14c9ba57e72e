/** What volumes may be called, how many there may be and where they may be mounted, on every engine. */

import { SandboxError } from "../../common/errors.ts";
import { cleanBindPath, findOverlap, findPathFault } from "../../engine/storage/bind-paths.ts";
import type { SandboxRecord } from "../../store/store.ts";
import { UUID_PATTERN } from "../../wire/address.ts";
import { MAX_MOUNTS } from "../../wire/bounds.ts";
import { MESSAGES } from "../../wire/messages.ts";

/** Of a team; a list tells all of them at once. */
export const MAX_VOLUMES = 1_000;

const NAME_PATTERN = /^[a-zA-Z0-9_-]{1,128}$/;

/** A volume by name, and where it is seen. */
export interface MountRequest {
  readonly name: string;
  readonly path: string;
}

/** @throws SandboxError invalid_argument */
export function requireVolumeName(name: string): void {
  if (NAME_PATTERN.test(name)) return;
  throw new SandboxError("invalid_argument", MESSAGES.volumeNameWrong);
}

/** @throws SandboxError invalid_argument */
export function requireVolumeId(volumeId: string): void {
  if (UUID_PATTERN.test(volumeId)) return;
  throw new SandboxError("invalid_argument", MESSAGES.volumeIdWrong);
}

/** What an engine refuses beyond the rules of all. */
interface MountRules {
  /** The identifier of a volume. */
  readonly find: (name: string) => string | undefined;
  /** Why nothing can be mounted at a path. */
  readonly faultOf?: (path: string) => string | undefined;
}

/** @throws SandboxError invalid_argument with every fault of the list. */
export function placeMounts(
  requests: readonly MountRequest[],
  { find, faultOf }: MountRules,
): SandboxRecord["volumeMounts"] {
  if (requests.length > MAX_MOUNTS) {
    throw new SandboxError("invalid_argument", `at most ${MAX_MOUNTS} volumes can be mounted`);
  }
  const paths = new Set<string>();
  const faults: string[] = [];
  const mounts = requests.flatMap(({ name, path }, index) => {
    const volumeId = find(name);
    const clean = cleanBindPath(path);
    const reason =
      volumeId === undefined
        ? missingText(name)
        : (findPathFault(path) ?? faultOf?.(clean) ?? overlapText(path, findOverlap(clean, paths)));
    if (reason !== undefined) faults.push(faultLine(index, reason));
    paths.add(clean);
    return volumeId === undefined ? [] : [{ name, path: clean, volumeId }];
  });
  refuseFaults(faults);
  return mounts;
}

/** @throws SandboxError invalid_argument when one is not there */
export function refuseMissing(
  mounts: SandboxRecord["volumeMounts"],
  isKnown: (volumeId: string) => boolean,
): void {
  const faults = mounts.flatMap(({ name, volumeId }, index) =>
    isKnown(volumeId) ? [] : [faultLine(index, missingText(name))],
  );
  refuseFaults(faults);
}

function refuseFaults(faults: readonly string[]): void {
  if (faults.length === 0) return;
  throw new SandboxError("invalid_argument", ["invalid mounts:", ...faults].join("\n"));
}

function faultLine(index: number, reason: string): string {
  return `\t- volume mount #${index}: ${reason}`;
}

function missingText(name: string): string {
  return `volume '${name}' not found`;
}

function overlapText(path: string, other: string | undefined): string | undefined {
  if (other === undefined) return undefined;
  return cleanBindPath(path) === other
    ? `path '${path}' is already used`
    : `path '${path}' and path '${other}' lie one inside the other`;
}
