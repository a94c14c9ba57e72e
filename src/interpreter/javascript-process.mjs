/**
 * The process of a JavaScript kernel. The main thread has V8 evaluate the cells as a console does
 * (top-level await, declarations that may be repeated); a worker takes them from a pipe, and can
 * interrupt a loop that never yields. Types of TypeScript are taken away.
 *
 * Arguments: the descriptors of questions and answers.
 */

import { Buffer } from "node:buffer";
import { writeSync } from "node:fs";
import { Session } from "node:inspector";
import { createRequire } from "node:module";
import { Socket } from "node:net";
import { join } from "node:path";
import process, { env } from "node:process";
import { pathToFileURL } from "node:url";
import { inspect } from "node:util";
import { constants, Script } from "node:vm";
import { isMainThread, parentPort, Worker } from "node:worker_threads";
import { createFaultFinder, toScript } from "./javascript-cell.mjs";
import { INTERRUPTED, toError } from "./javascript-error.mjs";
import { evaluate } from "./javascript-evaluate.mjs";
import { bindListeners, isHeard, isRunning, runAs } from "./listener-context.mjs";

/** A cell may declare these names for itself, in the scope that all scripts and modules share. */
const { Array, JSON, Object, Promise, String } = globalThis;
const [asked, answered] = process.argv.slice(2).map(Number);
/** What a value looks like; a large one is cut. */
const INSPECTION = { depth: 4, maxArrayLength: 200, maxStringLength: 100_000, breakLength: 100 };
/** The server takes no more; a larger result is named, and does not cost the kernel. */
const MAX_ANSWER_BYTES = 96 * 1024 * 1024;
const TOO_LARGE = { "text/plain": "[the result is too large to be sent]" };
/** An interrupted loop has ended by then; a cell that waits for a promise is left to itself. */
const INTERRUPT_MS = 100;
const DISPLAY = Symbol.for("Jupyter.display");
const HELPERS = Symbol.for("sandbox.kernel");

/** A promise that a cell leaves behind must not end the kernel, and an interrupt is the worker's. */
const LISTENERS = {
  unhandledRejection: report,
  uncaughtException: report,
  SIGINT: () => undefined,
};

if (isMainThread) prepareMain();
else startWorker();

function answer(value) {
  const bytes = toLine(value);
  const isLarge = bytes.length > MAX_ANSWER_BYTES;
  writeWhole(answered, isLarge ? toLine({ ...value, data: TOO_LARGE }) : bytes);
}

function toLine(value) {
  return Buffer.from(`${JSON.stringify(value)}\n`, "utf8");
}

function writeWhole(descriptor, bytes) {
  for (let at = 0; at < bytes.length;) {
    try {
      at += writeSync(descriptor, bytes, at);
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
    }
  }
}

/**
 * Has a stream write at once, without a state of its own: an interrupt in the middle of a write would
 * leave that state spoiled, and a loop that prints would collect its output in memory.
 */
function writeDirectly(stream, descriptor) {
  stream.write = (chunk, encoding, done) => {
    const isNamed = typeof encoding === "string";
    if (isHeard()) {
      writeWhole(
        descriptor,
        typeof chunk === "string" ? Buffer.from(chunk, isNamed ? encoding : "utf8") : chunk,
      );
    }
    const callback = isNamed ? done : encoding;
    if (typeof callback === "function") process.nextTick(callback);
    return true;
  };
}

/** What cells find in their global scope, and what the worker calls there. */
function prepareMain() {
  const file = join(process.cwd(), "cell.js");
  const require = createRequire(file);
  const importFromCell = createImporter(file);
  Object.assign(globalThis, { require });
  globalThis.display = (bundle) => {
    if (isHeard()) answer({ type: "result", main: false, data: toBundle(bundle) });
  };
  Object.defineProperty(globalThis, HELPERS, { value: { tell, load } });
  process.argv.splice(1);
  writeDirectly(process.stdout, 1);
  writeDirectly(process.stderr, 2);
  keepListeners();
  bindListeners(report);
  const argv = [asked, answered].map(String);
  const worker = new Worker(new URL(import.meta.url), { argv, stdin: false });
  worker.on("error", () => process.exit(70));
  const session = new Session();
  session.connect();
  const compiler = new Session();
  compiler.connect();
  const findFault = createFaultFinder(compiler);
  worker.on("message", async (question) => {
    keepListeners();
    const cell = { ...question, session, findFault };
    const error = await runAs(cell, () => runCell(cell)).catch(toFailure);
    worker.postMessage({ id: question.id, error }, []);
  });

  async function load(specifier, options) {
    const isRelative = /^\.{0,2}\//.test(specifier);
    const found = isRelative ? toUrl(require.resolve(specifier)) : resolve(specifier);
    return importFromCell(found, options);
  }

  function resolve(specifier) {
    try {
      return toUrl(require.resolve(specifier));
    } catch {
      // A package for import alone, or none: the import says so.
      return specifier;
    }
  }
}

/** An import from this file, since one of this module looks for packages beside the module. */
function createImporter(filename) {
  const importModuleDynamically = constants.USE_MAIN_CONTEXT_DEFAULT_LOADER;
  const options = { filename, importModuleDynamically };
  return new Script(
    "(specifier, options) => import(specifier, options)",
    options,
  ).runInThisContext();
}

/** Modules of Node have names and no paths. */
function toUrl(path) {
  return path.startsWith("/") ? pathToFileURL(path).href : path;
}

/** A cell may have taken them away. */
function keepListeners() {
  for (const [name, listener] of Object.entries(LISTENERS)) {
    if (!process.listeners(name).includes(listener)) process.on(name, listener);
  }
}

function report(error) {
  process.stderr.write(`${inspectSafely(error)}\n`);
}

/** A value whose own way to be shown fails is told by that failure. */
function inspectSafely(value) {
  try {
    return inspect(value, INSPECTION);
  } catch {
    return "[a value that cannot be shown]";
  }
}

function tell(value) {
  if (value === undefined) return;
  answer({ type: "result", main: true, data: toBundle(value) });
}

function toBundle(value) {
  if (typeof value?.[DISPLAY] === "function") {
    const bundle = value[DISPLAY]();
    if (bundle !== null && typeof bundle === "object" && !Array.isArray(bundle)) return bundle;
  }
  const isBundle =
    value !== null &&
    typeof value === "object" &&
    Object.keys(value).some((key) => key.includes("/"));
  if (isBundle && Object.keys(value).every((key) => /^[a-z]+\/[\w.+-]+$/.test(key))) return value;
  if (typeof value === "string") return { "text/plain": `'${value}'` };
  const text = inspect(value, INSPECTION);
  const isPlain =
    value != null && [Object.prototype, Array.prototype].includes(Object.getPrototypeOf(value));
  if (!isPlain) return { "text/plain": text };
  try {
    const json = JSON.parse(JSON.stringify(value));
    return { "text/plain": text, "application/json": json };
  } catch {
    // Circular, or with values that JSON lacks.
    return { "text/plain": text };
  }
}

let saved = [];

/** Sets the variables of one call; without any takes the last ones back. */
function setVariables(variables = {}) {
  for (const [name, value] of saved) {
    if (value === undefined) delete env[name];
    else env[name] = value;
  }
  saved = Object.keys(variables).map((name) => [name, env[name]]);
  Object.assign(env, variables);
}

/** Evaluates one cell and tells its result; resolves with its error, if it has one. */
async function runCell(cell) {
  const { id, code, variables, news, session, findFault } = cell;
  const objectGroup = `cell ${id}`;
  const call = (method, params) =>
    new Promise((resolve, reject) => {
      session.post(method, params, (error, result) => (error ? reject(error) : resolve(result)));
    });
  Object.assign(env, news);
  setVariables(variables);
  try {
    const options = { replMode: true, awaitPromise: true, userGesture: true, objectGroup };
    const expression = toScript(code, findFault);
    const { result, exceptionDetails } = await evaluate(session, { expression, ...options });
    // It was interrupted, and another one runs.
    if (!isRunning(cell)) return undefined;
    if (exceptionDetails !== undefined) return await toError(exceptionDetails, call);
    const { objectId } = result;
    const told = await call("Runtime.callFunctionOn", {
      functionDeclaration: `function (value) { this[Symbol.for("sandbox.kernel")].tell(value); }`,
      objectId: (await call("Runtime.evaluate", { expression: "globalThis", objectGroup })).result
        .objectId,
      arguments: [objectId === undefined ? plainArgument(result) : { objectId }],
      objectGroup,
    });
    return told.exceptionDetails && (await toError(told.exceptionDetails, call));
  } catch (error) {
    return toFailure(error);
  } finally {
    // V8 keeps each value that it has told of, an error with all that it refers to, until then.
    session.post("Runtime.releaseObjectGroup", { objectGroup });
    if (isRunning(cell)) setVariables();
  }
}

function toFailure(error) {
  return { name: error.name, value: error.message, traceback: String(error.stack) };
}

/** Takes questions from the pipe, one after the other, and tells their ends. */
function startWorker() {
  const session = new Session();
  session.connectToMainThread();
  let finish;
  let parts = [];
  let queue = Promise.resolve();
  let count = 0;
  // No file stream: a read that waits in the thread pool would keep the process from its exit.
  const input = new Socket({ fd: asked, readable: true, writable: false }).setEncoding("utf8");
  input.on("data", (text) => {
    const lines = text.split("\n");
    const rest = lines.pop();
    for (const line of lines) {
      take(JSON.parse(parts.join("") + line));
      parts = [];
    }
    parts.push(rest);
  });
  input.on("end", () => process.kill(process.pid, "SIGKILL"));
  parentPort.on("message", ({ id, error }) => {
    if (id === count) finish?.(error);
  });
  writeSync(answered, "ready\n");

  function take(question) {
    if (question.type === "interrupt") return interrupt();
    queue = queue.then(() => run(question));
  }

  function interrupt() {
    if (finish === undefined) return;
    const stop = finish;
    session.post("Runtime.terminateExecution", () => undefined);
    setTimeout(() => stop(INTERRUPTED), INTERRUPT_MS);
  }

  async function run(question) {
    count += 1;
    const error = await new Promise((resolve) => {
      finish = resolve;
      parentPort.postMessage({ ...question, id: count }, []);
    });
    finish = undefined;
    if (error !== undefined) answer({ type: "error", ...error });
    answer({ type: "done", number: question.number });
  }
}

function plainArgument({ value, unserializableValue }) {
  return unserializableValue === undefined ? { value } : { unserializableValue };
}
