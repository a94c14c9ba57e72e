/** Logs as resources: of a sandbox and of one process, their newest part or from a position on. */

import {
  ProtocolError,
  ProtocolErrorCode,
  ResourceNotFoundError,
  ResourceTemplate,
  type McpServer,
} from "@modelcontextprotocol/server";
import { hasEnded, parseProcessId } from "../../output/capture.ts";
import { formatLog, textOf } from "../../output/log-text.ts";
import { logUri, processLogUri } from "../../output/logs.ts";
import { parseSandboxId } from "../../wire/address.ts";
import type { McpState } from "../state.ts";

const MAX_COMPLETIONS = 100;
const PAGE_SIZE = 50;
const MIME_TYPE = "text/plain";

const TEMPLATES = [
  {
    name: "log",
    uri: "sandbox:///{sandbox_id}/log",
    title: "Sandbox log",
    description: "Output of all processes of a sandbox that this server started or watched.",
  },
  {
    name: "log-part",
    uri: "sandbox:///{sandbox_id}/log/{cursor}",
    title: "Part of a sandbox log",
    description: "The log of a sandbox from a byte on; the end names the next part.",
  },
  {
    name: "process-log",
    uri: "sandbox:///{sandbox_id}/process/{process_id}/log",
    title: "Process log",
    description: "The newest output of one process.",
  },
  {
    name: "process-log-part",
    uri: "sandbox:///{sandbox_id}/process/{process_id}/log/{cursor}",
    title: "Part of a process log",
    description: "The output of one process from a byte on; the end names the next part.",
  },
] as const;

/** Registers all logs. Without `isPaged` the list is whole and includes other registered resources. */
export function registerLogs(server: McpServer, state: McpState, isPaged: boolean): void {
  const complete = {
    sandbox_id: (prefix: string) =>
      state.logs
        .list()
        .map(({ sandboxId }) => sandboxId)
        .filter((sandboxId) => sandboxId.startsWith(prefix))
        .slice(0, MAX_COMPLETIONS),
  };
  for (const { name, uri: pattern, title, description } of TEMPLATES) {
    const list = name === "log" ? () => ({ resources: listLogs(state) }) : undefined;
    const template = new ResourceTemplate(pattern, { list, complete });
    const cacheHint = { ttlMs: 0, cacheScope: "private" } as const;
    const about = { title, description, mimeType: MIME_TYPE, cacheHint };
    server.registerResource(name, template, about, async ({ href: uri }) => ({
      contents: [{ uri, mimeType: MIME_TYPE, text: await readLog(uri, state) }],
    }));
  }
  if (isPaged) listByPages(server, state);
}

function listLogs(state: McpState) {
  const [{ description }] = TEMPLATES;
  return state.logs.list().map(({ sandboxId, uri, sizeBytes, changedAtMs }) => ({
    uri,
    name: `log of ${sandboxId}`,
    title: `Output of sandbox ${sandboxId}`,
    description,
    mimeType: MIME_TYPE,
    size: sizeBytes,
    annotations: { lastModified: new Date(changedAtMs).toISOString() },
  }));
}

/** The list of the SDK has no pages. */
function listByPages(server: McpServer, state: McpState): void {
  server.server.setRequestHandler("resources/list", ({ params }) => {
    // Sorted by name: a change between two requests moves no resource to another page.
    const all = listLogs(state).toSorted((left, right) => (left.uri < right.uri ? -1 : 1));
    const after = params?.cursor === undefined ? "" : logUri(requireCursor(params.cursor));
    const rest = all.filter(({ uri }) => uri > after);
    const resources = rest.slice(0, PAGE_SIZE);
    const last = /^sandbox:\/\/\/([a-z0-9]+)\//.exec(resources.at(-1)?.uri ?? "")?.[1];
    const hasMore = rest.length > resources.length && last !== undefined;
    return { resources, ...(hasMore && { nextCursor: last }) };
  });
}

/** A cursor is the last sandbox of the page before. @throws ProtocolError for any other text. */
function requireCursor(cursor: string): string {
  const sandboxId = parseSandboxId(cursor);
  if (sandboxId !== undefined) return sandboxId;
  throw new ProtocolError(ProtocolErrorCode.InvalidParams, "cursor is not one of ours");
}

const LOG_PATTERN =
  /^sandbox:\/\/\/([a-z0-9-]{1,128})(?:\/process\/(p_[0-9]{1,10}))?\/log(?:\/([0-9]{1,15}))?$/;

/**
 * The address by which changes of a log are announced; undefined for what is no log. A part of a
 * log changes with it, and an id can have a suffix.
 */
export function changesOf(uri: string): string | undefined {
  const [, id = "", processId] = LOG_PATTERN.exec(uri) ?? [];
  const sandboxId = parseSandboxId(id);
  if (sandboxId === undefined) return undefined;
  return processId === undefined ? logUri(sandboxId) : processLogUri(sandboxId, processId);
}

/** Says of addresses of changes whether there can be one: the sandbox lives, the process is not over. */
export function createChangeCheck({ logs, captures }: McpState): (uri: string) => boolean {
  const live = new Set(logs.list().map(({ sandboxId }) => sandboxId));
  return (uri) => {
    const [, sandboxId = "", processId] = LOG_PATTERN.exec(uri) ?? [];
    if (processId === undefined) return live.has(sandboxId);
    const capture = captures.find(sandboxId, parseProcessId(processId) ?? 0);
    return capture !== undefined && !hasEnded(capture);
  };
}

/** The text of a log. @throws ResourceNotFoundError for anything else. */
export async function readLog(uri: string, state: McpState): Promise<string> {
  const [, id = "", processId, cursor] = LOG_PATTERN.exec(uri) ?? [];
  const sandboxId = parseSandboxId(id);
  const from = cursor === undefined ? undefined : Number(cursor);
  if (sandboxId === undefined) throw new ResourceNotFoundError(uri);
  const text =
    processId === undefined
      ? await state.logs.read(sandboxId, from)
      : await readProcess(state, { sandboxId, processId, from });
  if (text === undefined) throw new ResourceNotFoundError(uri);
  return text;
}

async function readProcess(
  state: McpState,
  target: {
    readonly sandboxId: string;
    readonly processId: string;
    readonly from: number | undefined;
  },
): Promise<string | undefined> {
  const { sandboxId, processId, from } = target;
  const pid = parseProcessId(processId);
  if (pid === undefined) return undefined;
  const { captures } = state;
  const view = captures.find(sandboxId, pid) ?? (await captures.recall(sandboxId, pid));
  if (view === undefined) return undefined;
  return formatLog(textOf(view.output), { from, address: processLogUri(sandboxId, processId) });
}
