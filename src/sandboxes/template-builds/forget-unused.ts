/**
 * Forgets what builds left when it is old, also in a service that runs for months without another
 * build: requests whose steps never came, cached steps, archives, and images that no build names.
 */

import { everyInterval } from "../../common/clock.ts";
import { asOperation } from "../../common/operation.ts";
import type { Folders, Services } from "../context.ts";
import { pruneImagesInService } from "../templates/image-templates.ts";
import { forgetAbandoned } from "./abandoned-builds.ts";
import { evictSteps } from "./cache.ts";
import type { Uploads } from "./uploads.ts";

const INTERVAL_MS = 3_600_000;

type ForgetContext = Pick<Services, "store" | "clock" | "log" | "retry" | "closing"> &
  Pick<Folders, "home" | "layersDirectory">;

/** Looks every hour until the registry closes. It never rejects. */
export async function forgetUnused(context: ForgetContext, uploads: Uploads): Promise<void> {
  const { clock, log, closing } = context;
  for await (const _ of everyInterval(clock, INTERVAL_MS, closing)) {
    try {
      await asOperation("builds.forget", () => forget(context, uploads));
    } catch (error) {
      log.error({ op: "builds.forget", err: error }, "what builds left stays");
    }
  }
}

async function forget(context: ForgetContext, uploads: Uploads): Promise<void> {
  const { store, clock } = context;
  store.transaction(() => forgetAbandoned(store, clock.now()));
  await uploads.forgetOld();
  await evictSteps(context);
  await pruneImagesInService(context);
}
