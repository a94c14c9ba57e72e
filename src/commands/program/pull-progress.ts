/** How far the pull of an image is, judged by bytes on the disk and by what the unpacking announces. */

import type { BuildProgress } from "../../engine/templates/base-progress.ts";

/** Of a pull from a fast registry fetching takes this share; the files are written in the last one. */
const FETCHED_SHARE = 0.6;
const UNPACKED_SHARE = 0.9;
const LAYER_PATTERN = /^unpacking layer ([0-9]+) of ([0-9]+)$/;
const WRITING = "writing the files";
const BYTES_PER_MB = 1_000_000;

export interface PullProgress extends BuildProgress {
  /** Bytes that are there, and all that will come where the registry says it. */
  fetched(bytes: number, totalBytes: number | undefined): void;
}

export function createPullProgress(): PullProgress {
  let share = 0;
  let text = "asking the registry";

  function reach(next: number, what: string): void {
    share = Math.max(share, next);
    text = what;
  }

  return {
    note(line) {
      const [, layer, layers] = LAYER_PATTERN.exec(line) ?? [];
      if (layer !== undefined) {
        const done = (Number(layer) - 1) / Math.max(1, Number(layers));
        reach(FETCHED_SHARE + (UNPACKED_SHARE - FETCHED_SHARE) * done, line);
      } else if (line === WRITING) reach(UNPACKED_SHARE, line);
    },
    fetched(bytes, totalBytes) {
      if (share >= FETCHED_SHARE) return;
      const size = Math.round(bytes / BYTES_PER_MB);
      if (totalBytes === undefined) return reach(0, `${size} MB fetched`);
      const done = Math.min(1, bytes / Math.max(1, totalBytes));
      reach(FETCHED_SHARE * done, `${size} of ${Math.round(totalBytes / BYTES_PER_MB)} MB fetched`);
    },
    share: () => share,
    describe: () => text,
  };
}
