/** Paths and names as a daemon tells them: one that was replaced may claim any. */

import { cutText } from "../common/untrusted-text.ts";

/** The kernel takes no longer one. */
const MAX_PATH_CHARACTERS = 4_096;
/** A name of an account has 32, and so do permissions. */
const MAX_WORD_CHARACTERS = 256;

/** The path, or the beginning of what can be none. */
export function toPath(told: string): string {
  return cutText(told, MAX_PATH_CHARACTERS);
}

/** The same for an owner, a group, permissions or how a process ended. */
export function toWord(told: string): string {
  return cutText(told, MAX_WORD_CHARACTERS);
}
