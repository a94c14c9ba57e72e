/** `/volumes`: named folders that outlive sandboxes. */

import { z } from "../../common/schema.ts";
import { volumeRequestSchema } from "../../wire/control.ts";
import { ignored } from "../parameters.ts";
import { toVolumeBody } from "../reply.ts";
import { defineRoute } from "../route.ts";

const volumeParams = z.object({ volumeID: z.string() });

export const listVolumesRoute = defineRoute({
  method: "GET",
  path: "/volumes",
  auth: "key",
  params: ignored,
  query: ignored,
  body: ignored,
  async handle(_request, { sandboxes }) {
    const body = sandboxes
      .listVolumes()
      .map(({ volumeId, name }) => ({ volumeID: volumeId, name }));
    return { status: 200, body };
  },
});

export const createVolumeRoute = defineRoute({
  method: "POST",
  path: "/volumes",
  auth: "key",
  params: ignored,
  query: ignored,
  body: volumeRequestSchema,
  async handle({ body }, { sandboxes }) {
    return { status: 201, body: toVolumeBody(await sandboxes.createVolume(body.name)) };
  },
});

export const getVolumeRoute = defineRoute({
  method: "GET",
  path: "/volumes/{volumeID}",
  auth: "key",
  params: volumeParams,
  query: ignored,
  body: ignored,
  async handle({ params }, { sandboxes }) {
    return { status: 200, body: toVolumeBody(sandboxes.getVolume(params.volumeID)) };
  },
});

export const deleteVolumeRoute = defineRoute({
  method: "DELETE",
  path: "/volumes/{volumeID}",
  auth: "key",
  params: volumeParams,
  query: ignored,
  body: ignored,
  async handle({ params }, { sandboxes }) {
    await sandboxes.removeVolume(params.volumeID);
    return { status: 204 };
  },
});
