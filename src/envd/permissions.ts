/** File modes as the text that this wire uses: flag letters, then nine letters of permission. */

const TYPE_MASK = 0o170000;

/** The letters of each file type; a character device carries two. */
const TYPE_LETTERS: Readonly<Record<number, string>> = {
  0o040000: "d",
  0o120000: "L",
  0o060000: "D",
  0o020000: "Dc",
  0o010000: "p",
  0o140000: "S",
  0o100000: "",
};

const SET_USER_ID = 0o4000;
const SET_GROUP_ID = 0o2000;
const STICKY = 0o1000;
const PERMISSION_LETTERS = ["r", "w", "x", "r", "w", "x", "r", "w", "x"];

/** `-rw-r--r--`, `dtrwxrwxrwx`, `Lrwxrwxrwx`: every flag that is set, then the permissions. */
export function permissionsText(mode: number): string {
  return `${flagLetters(mode) || "-"}${permissionLetters(mode)}`;
}

/** Flags come in the fixed order type, u, g, c, t; `c` belongs to the type, between g and t. */
function flagLetters(mode: number): string {
  const type = TYPE_LETTERS[mode & TYPE_MASK] ?? "?";
  const [kind = "", character = ""] = type;
  const user = (mode & SET_USER_ID) === 0 ? "" : "u";
  const group = (mode & SET_GROUP_ID) === 0 ? "" : "g";
  const sticky = (mode & STICKY) === 0 ? "" : "t";
  return `${kind}${user}${group}${character}${sticky}`;
}

function permissionLetters(mode: number): string {
  return PERMISSION_LETTERS.map((letter, index) =>
    (mode & (0o400 >> index)) === 0 ? "-" : letter,
  ).join("");
}

/** The nine permission bits alone. */
export function permissionBits(mode: number): number {
  return mode & 0o777;
}
