/** `/volumes`: named folders that outlive sandboxes. */

import { z } from "../../common/schema.ts";
import type { Volume } from "../../sandboxes/volumes/volumes.ts";
import {
  createdVolumeSchema,
  type ListedVolumeBody,
  listedVolumeSchema,
  type VolumeBody,
  volumeRequestSchema,
  volumeSchema,
} from "../../wire/control.ts";
import { KEY_HEADERS, readCreationKey } from "../create-once.ts";
import { defineRoute, type Route } from "../route.ts";

const volumeParams = z.object({ volumeID: z.string() });

export const volumeRoutes: readonly Route[] = [
  defineRoute({
    method: "POST",
    path: "/volumes",
    headers: KEY_HEADERS,
    body: volumeRequestSchema,
    replies: { 201: createdVolumeSchema },
    faults: [400, 409, 422],
    worded: [409, 422],
    async handle(request, { sandboxes, domain }) {
      const volume = await sandboxes.createVolume(request.body.name, readCreationKey(request));
      return { status: 201, body: createdVolumeSchema.parse(toVolumeBody(volume, domain)) };
    },
  }),
  defineRoute({
    method: "GET",
    path: "/volumes",
    replies: { 200: z.array(listedVolumeSchema) },
    faults: [],
    async handle(_request, { sandboxes }) {
      return { status: 200, body: sandboxes.listVolumes().map((volume) => toListedVolume(volume)) };
    },
  }),
  defineRoute({
    method: "DELETE",
    path: "/volumes/{volumeID}",
    params: volumeParams,
    replies: { 204: null },
    faults: [400, 404, 409],
    async handle({ params }, { sandboxes }) {
      await sandboxes.removeVolume(params.volumeID);
      return { status: 204 };
    },
  }),
  defineRoute({
    method: "GET",
    path: "/volumes/{volumeID}",
    params: volumeParams,
    replies: { 200: volumeSchema },
    faults: [400, 404],
    async handle({ params }, { sandboxes, domain }) {
      const volume = await sandboxes.getVolume(params.volumeID);
      return { status: 200, body: toVolumeBody(volume, domain) };
    },
  }),
];

function toVolumeBody(volume: Volume, domain: string | null): VolumeBody {
  const { token } = volume;
  return { ...toListedVolume(volume), token, ...(domain !== null && { domain }) };
}

function toListedVolume({ volumeId, name, sizeMb }: Volume): ListedVolumeBody {
  return { volumeID: volumeId, name, ...(sizeMb !== undefined && { sizeMB: sizeMb }) };
}
