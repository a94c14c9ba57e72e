/** Calls that show all that is documented of volumes: for each route, by status. */

import type { RowMakers } from "./tag-rows.ts";

export interface VolumeRowMakers<Row> extends Pick<RowMakers<Row>, "call" | "made"> {
  readonly volume: (name: string) => Promise<string>;
  readonly create: (body: Readonly<Record<string, unknown>>) => Promise<unknown>;
}

/** Faults that every route has are asked for elsewhere. */
export function volumeRows<Row>({ call, made, volume, create }: VolumeRowMakers<Row>) {
  return {
    "GET /volumes": { 200: call("/volumes") },
    "POST /volumes": {
      201: call("/volumes", { name: "made" }),
      400: call("/volumes", { name: "a b" }),
    },
    "GET /volumes/{volumeID}": {
      200: made(async () => ({ path: `/volumes/${await volume("a")}` })),
    },
    "DELETE /volumes/{volumeID}": {
      204: made(async () => ({ path: `/volumes/${await volume("b")}` })),
      409: made(async () => {
        const volumeId = await volume("c");
        await create({ volumeMounts: [{ name: "c", path: "/data" }] });
        return { path: `/volumes/${volumeId}` };
      }),
    },
  };
}
