/** Replies of `perl/inotify.pl` to a request for watches: what each path became, and what it holds. */

export interface ListedEntry {
  /** A byte in each character. */
  readonly name: string;
  readonly isDirectory: boolean;
  /** Whether it is a regular file that is not empty. */
  readonly hasContent: boolean;
  /** Second of the last change of content or attributes. */
  readonly changedAtS: number;
}

/** A directory that is watched, or why it is not. */
export type WatchReport =
  | { readonly errno: 0; readonly wd: number; readonly entries: readonly ListedEntry[] }
  /** `wd` is 0 where the kernel refused the watch; else only the listing failed. */
  | { readonly errno: number; readonly wd: number; readonly entries: readonly [] };

const WORD_BYTES = 4;

/** Parses the reports of one reply, in the order of the request's paths. */
export function parseReports(bytes: Buffer): WatchReport[] {
  let offset = 0;
  const word = () => {
    offset += WORD_BYTES;
    return bytes.readUInt32BE(offset - WORD_BYTES);
  };
  const text = (length: number) => {
    offset += length;
    return bytes.toString("latin1", offset - length, offset);
  };
  const reports: WatchReport[] = [];
  while (offset < bytes.length) {
    const [errno, wd] = [word(), word()];
    const entries: ListedEntry[] = [];
    for (let left = word(); left > 0; left -= 1) {
      const flag = text(1);
      const changedAtS = word();
      const name = text(word());
      entries.push({ name, isDirectory: flag === "d", hasContent: flag === "f", changedAtS });
    }
    reports.push(errno === 0 ? { errno, wd, entries } : { errno, wd, entries: [] });
  }
  return reports;
}
