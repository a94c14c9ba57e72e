/** Calls that show all that is documented of volumes: for each route, by status. */

import { randomUUID } from "node:crypto";
import { DEFAULT_TEAM } from "../../../src/store/store.ts";
import type { TestService } from "../service.ts";
import { volumeUnderWay } from "./keyed-creates.ts";
import type { RowMakers } from "./tag-rows.ts";

export interface VolumeRowMakers<Row> extends Pick<RowMakers<Row>, "call" | "made"> {
  readonly service: () => TestService;
}

/** Faults that every route has are asked for elsewhere. */
export function volumeRows<Row>({ call, made, service }: VolumeRowMakers<Row>) {
  const volume = async (name: string) =>
    (await service().embedded.sandboxes.createVolume(name)).volumeId;
  /** Only root makes volumes with a size; any service lists them. */
  const sizedVolume = () => {
    const volumeId = randomUUID();
    const row = { volumeId, name: volumeId, team: DEFAULT_TEAM, createdAtMs: 0, sizeMb: 64 };
    service().embedded.store.volumes.add(row);
    return volumeId;
  };
  return {
    "GET /volumes": {
      200: made(async () => {
        sizedVolume();
        return { path: "/volumes" };
      }),
    },
    "POST /volumes": {
      201: call("/volumes", { name: "made" }),
      400: call("/volumes", { name: "a b" }),
      409: async () => volumeUnderWay(service()),
      422: made(async () => {
        const path = "/volumes";
        const headers = { "idempotency-key": "other-volume" };
        await service().call({ method: "POST", path, body: { name: "keyed" }, headers });
        return { path, body: { name: "other" }, headers };
      }),
    },
    "GET /volumes/{volumeID}": {
      200: made(async () => ({ path: `/volumes/${sizedVolume()}` })),
    },
    "DELETE /volumes/{volumeID}": {
      204: made(async () => ({ path: `/volumes/${await volume("b")}` })),
      409: made(async () => {
        const volumeId = await volume("c");
        await service().create({ volumeMounts: [{ name: "c", path: "/data" }] });
        return { path: `/volumes/${volumeId}` };
      }),
    },
  };
}
