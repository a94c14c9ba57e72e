/** Every route of the control API. */

import type { Route } from "../route.ts";
import { lifecycleRoutes } from "./lifecycle.ts";
import { logRoutes } from "./logs.ts";
import { metricRoutes } from "./metrics.ts";
import { notOfferedRoutes } from "./not-offered.ts";
import { sandboxListRoutes } from "./sandbox-lists.ts";
import { sandboxRoutes } from "./sandboxes.ts";
import { snapshotRoutes } from "./snapshots.ts";
import { tagAssignmentRoutes } from "./tag-assignments.ts";
import { templateBuildRoutes } from "./template-builds.ts";
import { templateRoutes } from "./templates.ts";
import { volumeRoutes } from "./volumes.ts";

export const ROUTES: readonly Route[] = [
  ...sandboxRoutes,
  ...sandboxListRoutes,
  ...lifecycleRoutes,
  ...logRoutes,
  ...metricRoutes,
  ...snapshotRoutes,
  ...templateRoutes,
  ...templateBuildRoutes,
  ...tagAssignmentRoutes,
  ...volumeRoutes,
  ...notOfferedRoutes,
];
