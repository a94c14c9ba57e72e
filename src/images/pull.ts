/** Fetches an image into an OCI layout, by skopeo. */

import { SandboxError } from "../common/errors.ts";
import type { PulledImage, PullOptions } from "./images.ts";

/**
 * Fetches an image: `debian:12`, `docker://ghcr.io/owner/name@sha256:…`, and where files are allowed
 * `oci:DIR[:TAG]` and `docker-archive:FILE[:TAG]`. Of an image of several platforms it takes that of
 * this machine.
 * @throws SandboxError invalid_argument for a malformed reference, not_found, permission_denied when
 * the registry asks for other credentials, resource_exhausted beyond `maxBytes`, unavailable when
 * skopeo is missing (with the command that installs it) or the registry does not answer, canceled
 */
export async function pullImage(reference: string, _options: PullOptions): Promise<PulledImage> {
  throw new SandboxError("unimplemented", `${reference}: images cannot be pulled yet`);
}
