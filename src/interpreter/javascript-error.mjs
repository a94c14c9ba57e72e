/** What V8 says of an exception, as an error of a reply. */

/** A cell may declare this name for itself, in the scope that all scripts and modules share. */
const { String } = globalThis;
/** Of an error; V8 quotes the whole name that it does not know. */
const MAX_ERROR_CHARACTERS = 262_144;

export const INTERRUPTED = {
  name: "KeyboardInterrupt",
  value: "the cell was interrupted",
  traceback: "",
};

/** Of a value without an own description. */
function textOf({ type, value }) {
  return type === "undefined" ? type : String(value);
}

/** The beginning and the end of a text that is too long. */
function cut(text) {
  if (text.length <= MAX_ERROR_CHARACTERS) return text;
  const half = MAX_ERROR_CHARACTERS / 2;
  return `${text.slice(0, half)}\n[...]\n${text.slice(-half)}`;
}

/** An exception as an error of a reply; the frames below the cell are left out. */
export function toError({ exception }) {
  if (exception === undefined) return INTERRUPTED;
  const description = cut(exception.description ?? textOf(exception));
  const [shown = ""] = description.split(/\n\s+at Session\.post \(node:inspector/);
  const lines = shown.split("\n").filter((line) => !line.includes("javascript-process.mjs"));
  if (exception.subtype !== "error") {
    return { name: "Error", value: description, traceback: `Uncaught ${description}` };
  }
  const message = lines.filter((line) => !/^\s+at /.test(line)).join("\n");
  const value = message.startsWith(`${exception.className}: `)
    ? message.slice(exception.className.length + 2)
    : message.replace(/^[\w$]+(?:: |$)/, "");
  return {
    name: /^[\w$]+(?=:|$)/.exec(message)?.[0] ?? exception.className,
    value,
    traceback: lines.join("\n"),
  };
}
