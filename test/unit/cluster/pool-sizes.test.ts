/** How many Pods a pool has where several of its templates are one image. */

import { expect, test } from "vitest";
import type { ApiCall } from "../../../src/cluster/api/api.ts";
import { createObjectCache } from "../../../src/cluster/api/object-cache.ts";
import type { Pod } from "../../../src/cluster/api/objects.ts";
import { createImageTemplates } from "../../../src/cluster/image-templates.ts";
import { createPoolFiller } from "../../../src/cluster/pods/pool.ts";
import type { StoredSandbox } from "../../../src/cluster/records.ts";
import { deriveSecrets } from "../../../src/cluster/seed.ts";
import { createSilentLog } from "../../../src/common/log.ts";
import { z } from "../../../src/common/schema.ts";
import { RECORD_FACTS } from "../../support/cluster/pod-record.ts";

const FOLLOWED = { filled: Promise.resolve(), [Symbol.asyncDispose]: async () => undefined };
const bodySchema = z.object({ metadata: z.object({ name: z.string() }) });

test("each of them has its own", async () => {
  const { limits } = RECORD_FACTS;
  const pods = createObjectCache<Pod>();
  const made: string[] = [];
  const api = {
    namespace: "test",
    async call({ body }: ApiCall) {
      const { name } = bodySchema.parse(body).metadata;
      made.push(name);
      return { metadata: { name, uid: name, resourceVersion: "1" } };
    },
    watch: () => Promise.reject(new Error("not watched")),
    read: () => Promise.reject(new Error("not read")),
    [Symbol.dispose]: () => undefined,
  };
  const fill = createPoolFiller({
    api,
    limits,
    log: createSilentLog(),
    images: createImageTemplates(
      [
        { name: "base", image: "host/image" },
        { name: "other", image: "host/image", user: "root" },
      ],
      limits,
    ),
    pods: { ...pods, ...FOLLOWED },
    records: { ...createObjectCache<StoredSandbox>(), ...FOLLOWED },
    pool: [
      { template: "base", size: 2 },
      { template: "other", size: 1 },
    ],
    cluster: deriveSecrets(Buffer.alloc(32)),
    podTemplate: {},
    snapshots: undefined,
  });
  await fill();
  expect(made).toHaveLength(3);
});
