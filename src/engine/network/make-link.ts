/** The link of a container, made anew where another one had its name. */

import { changeLinks, deleteLink, listLinks, type NetworkPath } from "./namespace.ts";
import { SANDBOX_LINK } from "./router-links.ts";

/**
 * Runs `batch` in the router; `network` is the container's. The kernel takes the link to a router that has
 * ended, but not at once, and its name is taken until then.
 */
export async function makeLink(router: NetworkPath, batch: string, network: string): Promise<void> {
  try {
    await changeLinks(router, batch, network);
  } catch (error) {
    if (!(await listLinks(network)).includes(SANDBOX_LINK)) throw error;
    await deleteLink(network, SANDBOX_LINK);
    await changeLinks(router, batch, network);
  }
}
