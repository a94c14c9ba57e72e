/** Input for a process, whether it reads from a pipe or from a terminal. */

import type { Sandbox } from "../../client/envd.ts";
import type { TerminalSize } from "../../client/process.ts";
import { anySignal } from "../../common/any-signal.ts";
import { chunksOf } from "../../common/bytes.ts";
import { SandboxError } from "../../common/errors.ts";
import { formatProcessId } from "../../output/capture.ts";

/** Below the message limit of services. */
const CHUNK_BYTES = 256 * 1024;
/** Ctrl-D: at the start of a line a terminal passes it on as the end of the input. */
const END_OF_INPUT = 0x04;
const NEWLINE = 0x0a;
const CARRIAGE_RETURN = 0x0d;
/** What the kernel keeps of a line that a program on a terminal reads as a line (termios(3)). */
const MAX_LINE_BYTES = 4_095;

export interface InputTarget {
  readonly sandbox: Sandbox;
  readonly pid: number;
  readonly signal: AbortSignal;
}

/**
 * Writes bytes in order, each chunk with a call of its own: the daemon keeps a chunk for a process
 * that does not read, also when the wait for it ends.
 * @returns whether a terminal took it, and what may be lost there, in the words of a reply
 * @throws SandboxError not_found, internal, resource_exhausted, unavailable, deadline_exceeded when
 * `late` fires first; its hint has the number of bytes that must not be sent again
 */
export async function writeInput(
  target: InputTarget,
  bytes: Buffer,
  late: AbortSignal,
): Promise<{ readonly isTyped: boolean; readonly fact: string | undefined }> {
  const signal = anySignal([target.signal, late]);
  let takenBytes = 0;
  let isTyped = false;
  for (const chunk of chunksOf(bytes, CHUNK_BYTES)) {
    try {
      isTyped = await writeChunk({ ...target, signal }, chunk);
    } catch (error) {
      if (late.aborted && !target.signal.aborted) {
        const message = `${formatProcessId(target.pid)} has not read its input yet`;
        const hint = unreadHint(takenBytes + chunk.length, bytes.length);
        throw new SandboxError("deadline_exceeded", message, { cause: error, hint });
      }
      if (takenBytes === 0 || !(error instanceof SandboxError)) throw error;
      const hint = takenHint(takenBytes, bytes.length);
      throw new SandboxError(error.code, error.message, { cause: error, hint });
    }
    takenBytes += chunk.length;
  }
  return { isTyped, fact: isTyped ? longLineFact(bytes) : undefined };
}

/** What may be lost of bytes that are typed on a terminal, in the words of a reply. */
export function longLineFact(bytes: Buffer): string | undefined {
  if (!hasLongLine(bytes)) return undefined;
  return `a program that reads lines may have lost what is behind byte ${MAX_LINE_BYTES} of a line: write long ones to a file`;
}

/** Whether the chunk was typed on a terminal. */
async function writeChunk({ sandbox, pid, signal }: InputTarget, chunk: Buffer): Promise<boolean> {
  try {
    await sandbox.process.sendInput(pid, [chunk], signal);
    return false;
  } catch (error) {
    if (!hasTerminal(error)) throw error;
    await sandbox.process.typeInput(pid, [chunk], signal);
    return true;
  }
}

function hasLongLine(bytes: Buffer): boolean {
  let size = 0;
  for (const byte of bytes) {
    size = byte === NEWLINE || byte === CARRIAGE_RETURN ? 0 : size + 1;
    if (size > MAX_LINE_BYTES) return true;
  }
  return false;
}

function unreadHint(givenBytes: number, allBytes: number): string {
  // At the end of the input some daemons drop what still waits.
  const repeat =
    "It gets them when it reads: do not send them again. The input is still open: close it once they are read.";
  if (givenBytes === allBytes) return `All ${allBytes} bytes wait for it. ${repeat}`;
  const rest = "Send only the rest, once it has read.";
  return `The first ${givenBytes} of ${allBytes} bytes wait for it. ${repeat} ${rest}`;
}

/** For a fault of a chunk behind others, which a repeat of the whole input would send twice. */
function takenHint(takenBytes: number, allBytes: number): string {
  const taken = `The first ${takenBytes} of ${allBytes} bytes reached it: do not send them again.`;
  return `${taken} Look whether the sandbox and the process run before you send the rest.`;
}

/**
 * Ends the input after `written`. A terminal is never closed: what is typed ends the input of a
 * program that reads lines, and only where no other call left a line open.
 * @returns what was done, in the words of a reply
 * @throws SandboxError not_found, internal
 */
export async function endInput(target: InputTarget, written: Buffer): Promise<string> {
  const { sandbox, pid, signal } = target;
  try {
    await sandbox.process.closeStdin(pid, signal);
    return "stdin is closed";
  } catch (error) {
    if (!hasTerminal(error)) throw error;
    // In the middle of a line the first one only passes the line on.
    const isLineOpen = written.length > 0 && written.at(-1) !== NEWLINE;
    const end = Buffer.alloc(isLineOpen ? 2 : 1, END_OF_INPUT);
    await sandbox.process.typeInput(pid, [end], signal);
    return "Ctrl-D was typed, which ends input at the start of a line alone";
  }
}

/** Changes the size of the terminal. @throws SandboxError not_found, invalid_argument */
export async function resizeTerminal(target: InputTarget, size: TerminalSize): Promise<void> {
  try {
    await target.sandbox.process.resize(target.pid, size, target.signal);
  } catch (error) {
    if (!(error instanceof SandboxError) || !NO_TERMINAL.test(error.message)) throw error;
    const hint = "Start it with run_process and pty=true.";
    const text = "the process has no terminal whose size could change";
    throw new SandboxError("invalid_argument", text, { cause: error, hint });
  }
}

const NO_TERMINAL = /tty not assigned/;
/** How daemons name the reason; it has no code of its own on the wire. */
const ON_TERMINAL = /tty assigned to process|stdin for PTY process/;

function hasTerminal(error: unknown): boolean {
  return error instanceof SandboxError && ON_TERMINAL.test(error.message);
}
