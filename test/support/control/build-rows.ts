/** Calls that show all that is documented of template builds: for each route, by status. */

import type { Call, TestService } from "../service.ts";

type Asked = Omit<Call, "method">;

interface RowMakers<Row> {
  readonly call: (path: string, body?: unknown) => Row;
  readonly made: (make: () => Promise<Asked>) => Row;
  readonly service: () => TestService;
  /** Of the team `busy`, which has requested as many builds as it may. */
  readonly busyKey: () => string;
}

const MAX_OPEN_BUILDS = 100;
const POLL_MS = 20;
const LIMITS = { cpus: undefined, memoryMb: undefined };

const PLAN = {
  fromTemplate: "none",
  fromImageRegistry: { type: "registry", username: "user", password: "secret" },
  force: true,
  steps: [{ type: "COPY", args: ["a", "b"], filesHash: "00ff", force: true }],
  startCmd: "true",
  readyCmd: "true",
  fromDockerfile: true,
  isolation: "gvisor",
};

const REGISTRIES = [
  { type: "aws", awsAccessKeyId: "a", awsSecretAccessKey: "b", awsRegion: "c" },
  { type: "gcp", serviceAccountJson: "{}" },
];

/** Faults that every route has are asked for elsewhere. */
export function buildRows<Row>({ call, made, service, busyKey }: RowMakers<Row>) {
  const sandboxes = () => service().embedded.sandboxes;

  /** The path of a build that waits for its steps. */
  function waiting(): string {
    const { template, build } = sandboxes().builds.request({ ...LIMITS, name: "rows", tags: [] });
    return `/templates/${template.templateId}/builds/${build.buildId}`;
  }

  /** The path of one that has failed at its base, with a log. */
  async function failed(): Promise<string> {
    const path = waiting();
    const [, , template = "", , id = ""] = path.split("/");
    const from = { kind: "template", reference: "none" } as const;
    const commands = { startCommand: undefined, readyCommand: undefined };
    const { builds } = sandboxes();
    await builds.start(template, id, { from, ...commands, force: false, steps: [] });
    const filter = { level: "debug", limit: 1, offset: 0, direction: "forward" } as const;
    while (builds.status(template, id, filter).build.status !== "error") {
      await new Promise((done) => setTimeout(done, POLL_MS));
    }
    return path;
  }

  return {
    "POST /v3/templates": {
      202: call("/v3/templates", {
        name: "rows:one",
        alias: "rows",
        tags: ["two"],
        cpuCount: 1,
        memoryMB: 256,
        minFreeDiskMb: 1,
        teamID: "local",
      }),
      400: [call("/v3/templates", {}), call("/v3/templates", { name: "a b" })],
      429: made(async () => {
        const team = sandboxes().of("busy");
        for (let index = 0; index < MAX_OPEN_BUILDS; index += 1) {
          team.builds.request({ ...LIMITS, name: "rows", tags: [] });
        }
        const headers = { "x-api-key": busyKey() };
        return { path: "/v3/templates", body: { name: "rows" }, headers };
      }),
    },
    "GET /templates/{templateID}/files/{hash}": {
      201: made(async () => ({ path: `${waiting().split("/builds")[0]}/files/00ff` })),
      400: made(async () => ({ path: `${waiting().split("/builds")[0]}/files/XY` })),
      403: call("/templates/base/files/00ff"),
    },
    "POST /v2/templates/{templateID}/builds/{buildID}": {
      202: [
        made(async () => ({ path: `/v2${waiting()}`, body: PLAN })),
        made(async () => ({ path: `/v2${waiting()}`, body: { fromImage: "none" } })),
      ],
      400: [
        ...REGISTRIES.map((fromImageRegistry) =>
          made(async () => {
            const body = { fromImage: "none", fromImageRegistry };
            return { path: `/v2${waiting()}`, body };
          }),
        ),
        made(async () => ({ path: `/v2${await failed()}`, body: PLAN })),
      ],
      403: call("/v2/templates/base/builds/none", PLAN),
      // A call that is one too many for the rate limit.
      429: made(async () => {
        const headers = { "x-api-key": busyKey() };
        const wanted = { path: "/v2/templates/none/builds/none", body: PLAN, headers };
        let status = 0;
        while (status !== 429) ({ status } = await service().call({ ...wanted, method: "POST" }));
        return wanted;
      }),
    },
    "GET /templates/{templateID}/builds/{buildID}/status": {
      200: made(async () => ({
        path: `${await failed()}/status?logsOffset=0&limit=10&level=info`,
      })),
      400: made(async () => ({ path: `${waiting()}/status?limit=101` })),
      403: call("/templates/base/builds/none/status"),
    },
    "GET /templates/{templateID}/builds/{buildID}/logs": {
      200: made(async () => ({
        path: `${await failed()}/logs?cursor=0&limit=10&direction=forward&level=info&source=temporary`,
      })),
      400: made(async () => ({ path: `${waiting()}/logs?direction=up` })),
      403: call("/templates/base/builds/none/logs"),
    },
  };
}
