/** Metrics of the service for a monitor, in the text form that Prometheus reads. */

import type { IncomingMessage, ServerResponse } from "node:http";
import { sendJson } from "../common/http.ts";
import type { KeyCheck } from "../sandboxes/keys.ts";
import type { Sandboxes } from "../sandboxes/sandboxes.ts";
import { API_KEY_HEADER } from "../wire/headers.ts";
import { MESSAGES } from "../wire/messages.ts";

const CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8";
const MS_PER_SECOND = 1000;

/** One call of the control API, when it is over. */
export interface RecordedCall {
  readonly method: string;
  /** The pattern that matched, never what the client sent: there are only so many. */
  readonly path: string;
  readonly status: number;
  readonly durationMs: number;
}

export interface ServiceMetrics {
  record(call: RecordedCall): void;
  /** Answers `GET /metrics`, to keys of the team that runs the service alone. */
  handle(request: IncomingMessage, response: ServerResponse): Promise<void>;
}

export interface ServiceMetricsOptions {
  readonly keys: KeyCheck;
  /** The team whose keys may see what all teams do. */
  readonly team: string;
  readonly sandboxes: Pick<Sandboxes, "count">;
  readonly maxSandboxes: number;
}

interface Tally {
  calls: number;
  seconds: number;
}

/** Begins to count. */
export function createServiceMetrics(options: ServiceMetricsOptions): ServiceMetrics {
  const tallies = new Map<string, Tally>();
  const { keys, team, sandboxes, maxSandboxes } = options;

  function render(): string {
    const { running, paused, starting } = sandboxes.count();
    const entries = [...tallies];
    const families: readonly Family[] = [
      {
        name: "sandbox_mcp_sandboxes",
        type: "gauge",
        help: "Sandboxes by state.",
        samples: [
          [`state="running"`, running],
          [`state="paused"`, paused],
          [`state="starting"`, starting],
        ],
      },
      {
        name: "sandbox_mcp_sandboxes_max",
        type: "gauge",
        help: "Sandboxes that there may be.",
        samples: [["", maxSandboxes]],
      },
      {
        name: "sandbox_mcp_control_calls_total",
        type: "counter",
        help: "Calls of the control API that are over.",
        samples: entries.map(([labels, { calls }]) => [labels, calls]),
      },
      {
        name: "sandbox_mcp_control_call_seconds_total",
        type: "counter",
        help: "Time that they took.",
        samples: entries.map(([labels, { seconds }]) => [labels, seconds]),
      },
      {
        name: "process_resident_memory_bytes",
        type: "gauge",
        help: "Memory of the service itself.",
        samples: [["", process.memoryUsage.rss()]],
      },
    ];
    return `${families.flatMap(toLines).join("\n")}\n`;
  }

  return {
    record({ method, path, status, durationMs }) {
      const labels = `method="${method}",path="${path}",status="${status}"`;
      const tally = tallies.get(labels) ?? { calls: 0, seconds: 0 };
      tally.calls += 1;
      tally.seconds += durationMs / MS_PER_SECOND;
      tallies.set(labels, tally);
    },
    async handle(request, response) {
      if (keys.teamOf(credentialOf(request)) !== team) {
        const message = `the metrics need a key of the team ${team}`;
        const headers = { "www-authenticate": "Bearer" };
        sendJson(response, 401, { body: { code: 401, message }, headers });
        return;
      }
      if (request.method !== "GET") {
        const body = { code: 405, message: MESSAGES.methodUnknown };
        sendJson(response, 405, { body, headers: { allow: "GET" } });
        return;
      }
      response.writeHead(200, { "content-type": CONTENT_TYPE, "cache-control": "no-store" });
      response.end(render());
    },
  };
}

/** Monitors send bearer tokens, other clients the header of the control API. */
function credentialOf({ headers }: IncomingMessage): string {
  const key = headers[API_KEY_HEADER];
  if (typeof key === "string") return key;
  return /^bearer +([^\s]{1,512})$/i.exec(headers.authorization ?? "")?.[1] ?? "";
}

type Sample = readonly [labels: string, value: number];

interface Family {
  readonly name: string;
  readonly type: "counter" | "gauge";
  readonly help: string;
  readonly samples: readonly Sample[];
}

function toLines({ name, type, help, samples }: Family): string[] {
  const lines = samples.map(([labels, value]) =>
    labels === "" ? `${name} ${value}` : `${name}{${labels}} ${value}`,
  );
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...lines];
}
