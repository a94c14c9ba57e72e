/** What builds of templates need of a whole service: secrets, archives, and who runs them in turn. */

import { join } from "node:path";
import type { Clock } from "../../common/clock.ts";
import type { Track } from "../../common/concurrency.ts";
import type { Logger } from "../../common/log.ts";
import { LAYERS } from "../../engine/storage/layers.ts";
import type { Store } from "../../store/store.ts";
import type { Services } from "../context.ts";
import { createCopyLedger } from "../disks/disk-space.ts";
import { openSecrets } from "../secrets.ts";
import { createBuildRunner } from "./build-runner.ts";
import { forgetUnused } from "./forget-unused.ts";
import { requireSpace } from "./free-space.ts";
import { createLayerSizes } from "./layer-sizes.ts";
import type { BuildRules } from "./step-sandbox.ts";
import { openUploads, UPLOADS } from "./uploads.ts";

/** Why the builds of a template end with it. */
export const TEMPLATE_REMOVED = "cancelled: the template was removed";

interface BuildingOptions {
  readonly home: string;
  readonly owner: string;
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  readonly buildNetwork?: BuildRules["buildNetwork"] | undefined;
}

/** Opens them, and forgets what builds left; builds end with the registry. */
export async function openBuilding(
  { home, owner, store, clock, log, buildNetwork }: BuildingOptions,
  { track, closing, retry }: Pick<Services, "closing" | "retry"> & { readonly track: Track },
) {
  const secrets = await openSecrets(home, store);
  const directory = join(home, UPLOADS);
  const layersDirectory = join(home, LAYERS);
  const space = { home, store, clock, log, retry, directory, layersDirectory };
  const key = secrets.uploadKey;
  // Uploads leave what the disks of sandboxes were promised, as copies of them do.
  const copies = createCopyLedger();
  const uploads = await openUploads({
    directory,
    owner,
    key,
    copies,
    requireSpace: () => requireSpace(space),
    now: () => clock.now(),
  });
  // Its faults are logged inside; it is tracked, so closing waits for it.
  void track(forgetUnused({ ...space, closing }, uploads));
  const layerSizes = createLayerSizes(layersDirectory);
  const runner = createBuildRunner({ uploads, layerSizes, track, closing });
  const network = { allowsInternet: undefined, network: undefined };
  return {
    secrets,
    copies,
    runner,
    buildNetwork: buildNetwork ?? network,
    cancelBuilds: (templateId: string) => runner.cancel(templateId, TEMPLATE_REMOVED),
  };
}
