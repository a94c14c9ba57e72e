/** What V8 says of an exception, as an error of a reply. */

/** A cell may declare this name for itself, in the scope that all scripts and modules share. */
const { String } = globalThis;
/** Of an error; V8 quotes the whole name that it does not know. */
const MAX_ERROR_CHARACTERS = 262_144;
/** Of an error, each the cause of the one before. */
const MAX_CAUSES = 8;

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

/** A description without the frames below the cell. */
function shorten(text) {
  const [shown = ""] = cut(text).split(/\n\s+at Session\.post \(node:inspector/);
  const lines = shown.split("\n").filter((line) => !line.includes("javascript-process.mjs"));
  return lines.join("\n");
}

/** Of an error: `fetch failed` says nothing without them. A property that is code is not read. */
async function causesOf({ objectId }, call) {
  const causes = [];
  let id = objectId;
  while (id !== undefined && causes.length < MAX_CAUSES) {
    const { result } = await call("Runtime.getProperties", { objectId: id, ownProperties: true });
    const cause = result.find(({ name }) => name === "cause")?.value;
    if (cause === undefined || cause.type === "undefined") break;
    causes.push(`\n[cause]: ${shorten(cause.description ?? textOf(cause))}`);
    id = cause.objectId;
  }
  return causes.join("");
}

/** An exception as an error of a reply; `call` asks the inspector. */
export async function toError({ exception }, call) {
  if (exception === undefined) return INTERRUPTED;
  const description = exception.description ?? textOf(exception);
  if (exception.subtype !== "error") {
    const text = cut(description);
    return { name: "Error", value: text, traceback: `Uncaught ${text}` };
  }
  const shown = shorten(description);
  const message = shown
    .split("\n")
    .filter((line) => !/^\s+at /.test(line))
    .join("\n");
  const value = message.startsWith(`${exception.className}: `)
    ? message.slice(exception.className.length + 2)
    : message.replace(/^[\w$]+(?:: |$)/, "");
  return {
    name: /^[\w$]+(?=:|$)/.exec(message)?.[0] ?? exception.className,
    value,
    traceback: cut(`${shown}${await causesOf(exception, call)}`),
  };
}
