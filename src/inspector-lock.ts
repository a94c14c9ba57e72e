/** Keeps SIGUSR1 from opening Node's inspector, which hands memory and control to every process that connects. */

/** The thread of Node that takes an early signal runs beside the program, and may be late. */
const LATE_SIGNAL_MS = 1_000;

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Takes SIGUSR1 for this process, which then does nothing. A signal that came before, while Node
 * itself started, may have opened the inspector: it is closed, unless Node was told to open one.
 */
export function lockInspector(environment: Environment): void {
  process.on("SIGUSR1", ignore);
  const flags = [...process.execArgv, environment["NODE_OPTIONS"] ?? ""].join(" ");
  if (flags.includes("--inspect")) return;
  setImmediate(closeInspector);
  setTimeout(closeInspector, LATE_SIGNAL_MS).unref();
}

function ignore(): void {
  // The listener is there to take the place of Node's own.
}

function closeInspector(): void {
  const inspector = process.getBuiltinModule("node:inspector");
  if (inspector.url() !== undefined) inspector.close();
}
