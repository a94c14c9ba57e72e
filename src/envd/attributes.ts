/**
 * Metadata of files, kept in their extended attributes. The helper that reads and writes them is
 * started when it is needed and ends when it was not for a while.
 */

import { getSystemErrorName } from "node:util";
import { inBatches } from "../common/bytes.ts";
import { SandboxError } from "../common/errors.ts";
import { toSystemBytes } from "../common/file-names.ts";
import { AttributesProcess, HelperDied } from "./attributes-process.ts";
import type { Command } from "./bundled-program.ts";

export type Metadata = Readonly<Record<string, string>>;

export interface Attributes {
  /**
   * The metadata of each path, in order, links followed; empty where it cannot be read.
   * @throws SandboxError unavailable when the helper is killed again and again or too many requests
   * wait, deadline_exceeded when a file system is silent, resource_exhausted for too much metadata
   */
  read(paths: readonly string[]): Promise<readonly Metadata[]>;
  /**
   * Makes a set the whole metadata of a file; returns what is stored then.
   * @throws the system's error, or what `read` throws
   */
  replace(path: string, metadata: ReadonlyMap<string, string>): Promise<Metadata>;
  /**
   * Gives a file all attributes of another one but its metadata, access rights among them; what
   * the file system or the kernel keeps for itself stays away.
   * @throws the system's error for a full disk, or what `read` throws
   */
  copy(source: string, target: string): Promise<void>;
}

/** A helper that was not asked for this long ends; to start another costs some 5 ms. */
const IDLE_MS = 30_000;
/** The paths of one request in bytes: a folder of a few thousand files. */
const MAX_REQUEST_BYTES = 524_288;
/** Attempts of one request: programs of the sandbox may kill the helper under it. */
const MAX_ATTEMPTS = 3;
/** Of all replies to one call together; as the helper's own of one. */
const MAX_REPLY_BYTES = 8_388_608;
const LENGTH_BYTES = 4;
/** The kernel's number for an argument that is too long; the helper's for a reply that is. */
const E2BIG = 7;

/** Reads and writes attributes by `attributes.pl`; its process ends with this one. */
export function createAttributes(helper: Command, { idleMs = IDLE_MS } = {}): Attributes {
  let current: AttributesProcess | undefined;

  async function ask(letter: "r" | "w" | "c", fields: readonly string[]): Promise<Buffer> {
    const request = Buffer.concat([Buffer.from(letter), ...fields.flatMap(toField)]);
    for (let attempt = 1; ; attempt += 1) {
      // Between this look and the request nothing else runs, the end of an idle helper included.
      if (current === undefined || current.hasEnded)
        current = new AttributesProcess(helper, idleMs);
      try {
        return await current.ask(request);
      } catch (error) {
        // Each request may be done twice: one reads, the others set the whole of what there is.
        if (!(error instanceof HelperDied) || attempt === MAX_ATTEMPTS) throw error;
      }
    }
  }

  return {
    async read(paths) {
      const found: Metadata[] = [];
      let bytes = 0;
      for (const batch of inBatches(paths, MAX_REQUEST_BYTES)) {
        const answer = await ask("r", batch);
        bytes += answer.length;
        const reply = parseReply(answer);
        if (reply.errno !== 0) throw replyFault(reply.errno);
        if (bytes > MAX_REPLY_BYTES) throw replyFault(E2BIG);
        found.push(...reply.sets);
      }
      return found;
    },
    async replace(path, metadata) {
      const reply = parseReply(await ask("w", [path, ...[...metadata].flat()]));
      if (reply.errno !== 0) throw replyFault(reply.errno);
      return reply.sets[0] ?? {};
    },
    async copy(source, target) {
      const reply = parseReply(await ask("c", [source, target]));
      if (reply.errno !== 0) throw replyFault(reply.errno);
    },
  };
}

const NUL = Buffer.of(0);

function toField(field: string): Buffer[] {
  return [toSystemBytes(field), NUL];
}

function replyFault(errno: number): Error {
  if (errno === E2BIG) return new SandboxError("resource_exhausted", "too much metadata");
  const code = getSystemErrorName(-errno);
  return Object.assign(new Error(code), { code });
}

interface Reply {
  readonly errno: number;
  readonly sets: readonly Metadata[];
}

function parseReply(bytes: Buffer): Reply {
  let offset = 0;
  const number = () => {
    const value = bytes.readUInt32BE(offset);
    offset += LENGTH_BYTES;
    return value;
  };
  const text = () => {
    const end = offset + LENGTH_BYTES + bytes.readUInt32BE(offset);
    const value = decode(bytes.subarray(offset + LENGTH_BYTES, end));
    offset = end;
    return value;
  };
  const errno = number();
  const sets: Metadata[] = [];
  while (offset < bytes.length) {
    const entries: [string, string][] = [];
    for (let left = number(); left > 0; left -= 1) {
      const [name, value] = [text(), text()];
      if (name !== undefined && value !== undefined) entries.push([name, value]);
    }
    sets.push(Object.fromEntries(entries));
  }
  return { errno, sets };
}

const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Undefined for what is no text: programs of the sandbox may store anything. */
function decode(bytes: Buffer): string | undefined {
  try {
    return UTF8.decode(bytes);
  } catch (error) {
    if (error instanceof TypeError) return undefined;
    throw error;
  }
}
