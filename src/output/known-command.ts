/** The command by which a process is told from a later one with its pid. */

/** Of hundreds of processes that are known, each may have been started with megabytes. */
const MAX_BEGIN_CHARACTERS = 65_536;

/** A command, of which the begin alone is kept where it is long. */
export interface KnownCommand {
  readonly begin: string;
  /** Of the whole command. */
  readonly characters: number;
}

export function toKnownCommand(command: string): KnownCommand {
  const characters = command.length;
  if (characters <= MAX_BEGIN_CHARACTERS) return { begin: command, characters };
  // A copy: a part of a string holds the whole one.
  const bytes = Buffer.from(command.slice(0, MAX_BEGIN_CHARACTERS), "utf16le");
  return { begin: bytes.toString("utf16le"), characters };
}

/** Services of other makers may list no command, one without its arguments, or one before it. */
export function isListedAs(listed: string, { begin, characters }: KnownCommand): boolean {
  const before = listed.length - characters;
  if (before >= 0) return listed.startsWith(begin, before);
  return begin.startsWith(listed) || listed.startsWith(begin);
}
