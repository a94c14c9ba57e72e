/** Every route of the control API. */

import type { Route } from "../route.ts";
import { connectSandboxV2Route } from "./connect-sandbox-v2.ts";
import { connectSandboxRoute } from "./connect-sandbox.ts";
import { createSandboxV2Route } from "./create-sandbox-v2.ts";
import { createSandboxRoute } from "./create-sandbox.ts";
import { createSnapshotRoute } from "./create-snapshot.ts";
import { deleteTemplateRoute } from "./delete-template.ts";
import { forkSandboxRoute } from "./fork-sandbox.ts";
import { getLogsV2Route } from "./get-logs-v2.ts";
import { getLogsRoute } from "./get-logs.ts";
import { getMetricsRoute } from "./get-metrics.ts";
import { getSandboxRoute } from "./get-sandbox.ts";
import { getTemplateAliasRoute } from "./get-template-alias.ts";
import { getTemplateRoute } from "./get-template.ts";
import { killSandboxRoute } from "./kill-sandbox.ts";
import { listMetricsRoute } from "./list-metrics.ts";
import { listSandboxesV2Route } from "./list-sandboxes-v2.ts";
import { listSandboxesRoute } from "./list-sandboxes.ts";
import { listSnapshotsRoute } from "./list-snapshots.ts";
import { listTemplatesV2Route } from "./list-templates-v2.ts";
import { listTemplatesRoute } from "./list-templates.ts";
import { notOfferedRoutes } from "./not-offered.ts";
import { pauseSandboxRoute } from "./pause-sandbox.ts";
import { refreshSandboxRoute } from "./refresh-sandbox.ts";
import { resumeSandboxRoute } from "./resume-sandbox.ts";
import { setTimeoutRoute } from "./set-timeout.ts";
import { listTagsRoute, tagTemplateRoute, untagTemplateRoute } from "./template-tags.ts";
import { updateNetworkRoute } from "./update-network.ts";
import { updateTemplateRoute, updateTemplateV2Route } from "./update-template.ts";
import {
  createVolumeRoute,
  deleteVolumeRoute,
  getVolumeRoute,
  listVolumesRoute,
} from "./volumes.ts";

export const ROUTES: readonly Route[] = [
  connectSandboxRoute,
  connectSandboxV2Route,
  createSandboxRoute,
  createSandboxV2Route,
  createSnapshotRoute,
  deleteTemplateRoute,
  forkSandboxRoute,
  getLogsRoute,
  getLogsV2Route,
  getMetricsRoute,
  getSandboxRoute,
  getTemplateAliasRoute,
  getTemplateRoute,
  killSandboxRoute,
  listMetricsRoute,
  listSandboxesRoute,
  listSandboxesV2Route,
  listSnapshotsRoute,
  listTagsRoute,
  listTemplatesRoute,
  listTemplatesV2Route,
  pauseSandboxRoute,
  refreshSandboxRoute,
  resumeSandboxRoute,
  setTimeoutRoute,
  tagTemplateRoute,
  untagTemplateRoute,
  updateNetworkRoute,
  updateTemplateRoute,
  updateTemplateV2Route,
  createVolumeRoute,
  deleteVolumeRoute,
  getVolumeRoute,
  listVolumesRoute,
  ...notOfferedRoutes,
];
