/** Routers that are there follow a machine whose network changes, as that of a laptop. */

import type { EgressProgram } from "./egress-program.ts";
import type { HostNetwork } from "./host-network.ts";
import { applyRules } from "./namespace.ts";
import { writeRouter, type Router } from "./router-record.ts";
import { resolverRules } from "./router-rules.ts";
import { renewUplink } from "./uplink.ts";

export interface Followed {
  /** By the number of their router; a process has only those that it was asked for itself. */
  readonly programs: Map<number, EgressProgram>;
  /** By the same number: the last change of the outside that it took over. */
  readonly followed: Map<number, number>;
}

/** The machine may have other name servers, or lead outside by another link, than when a router was made. */
export async function followOutside(
  { programs, followed }: Followed,
  router: Router,
  { path, resolvers, changes }: HostNetwork,
): Promise<Router> {
  const { slot, outside } = router;
  if (followed.get(slot) === changes || outside !== (path ?? null)) return router;
  const current = { ...router, resolvers: [...resolvers] };
  await applyRules(router.path, resolverRules(resolvers));
  await renewUplink(path, current);
  await programs.get(slot)?.renew(resolvers);
  await writeRouter(current);
  followed.set(slot, changes);
  return current;
}
