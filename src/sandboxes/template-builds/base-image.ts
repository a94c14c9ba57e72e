/** The image that a build begins with, as a layer that a record of the cache names. */

import { dirname } from "node:path";
import { SandboxError } from "../../common/errors.ts";
import { addImage } from "../../images/add-image.ts";
import type { ImageLayer } from "../../images/images.ts";
import { toCredentials, type RegistryLogin } from "../../images/registry-login.ts";
import { DEFAULT_TEAM } from "../../store/store.ts";
import { newReadyBuild } from "../templates/new-template.ts";
import { cacheTemplateId } from "./cache.ts";
import type { BuildBase } from "./dockerfile-state.ts";
import { requireSpace } from "./free-space.ts";
import type { BuildJob } from "./run-build.ts";
import type { StepContext } from "./step-sandbox.ts";

/**
 * Fetches and unpacks an image, unless it is there.
 * @throws SandboxError unimplemented where no images are fetched, else as `toCredentials` and
 * `addImage`.
 */
export async function resolveImage(
  context: StepContext,
  { record: { buildId }, template, log, signal }: BuildJob,
  image: { readonly reference: string; readonly login?: RegistryLogin | undefined },
): Promise<BuildBase> {
  const { images, store, team, owner, clock, limits } = context;
  if (images === undefined) {
    throw new SandboxError("unimplemented", "this service fetches no images");
  }
  await requireSpace(context);
  const { authFiles, ecrEndpoint, ...rest } = images;
  const { login, reference } = image;
  const options = {
    ...rest,
    home: dirname(context.layersDirectory),
    credentials: login && (await toCredentials(login, reference, { signal, ecrEndpoint })),
    isOfRequest: true,
    ...(team === DEFAULT_TEAM && { authFiles }),
    onProgress: (message: string) => log.note("base", message),
  };
  const commit = (added: ImageLayer): BuildBase => {
    const named = { user: added.config.user, workdir: added.config.workdir };
    for (const line of [`image ${added.pinned}`, ...added.notes]) log.note("base", line);
    const cacheKey = `image:${team}:${added.digest}`;
    const layers = [context.templates.toStored(added.layer)];
    const known = store.builds.cached(cacheKey);
    if (known !== undefined && known.layers[0]?.root === layers[0]?.root) {
      return { template, build: known, named };
    }
    const nowMs = clock.now();
    const pairs = added.config.env.map(({ name, value }) => [name, value] as const);
    const facts = {
      templateId: cacheTemplateId(context),
      owner,
      limits,
      layers,
      defaultUser: added.defaultUser,
      defaultWorkdir: added.defaultWorkdir,
      setup: { environment: Object.fromEntries(pairs), startCommand: "", readyCommand: "" },
      cacheKey,
    };
    const build = newReadyBuild(facts, nowMs);
    store.builds.put(build);
    return { template, build, named };
  };
  try {
    // How large an image is shows when all of it was unpacked.
    return await context.copies.whileSpaceLeft({ path: context.directory, signal }, (stop) =>
      addImage(reference, { ...options, signal: stop }, commit),
    );
  } catch (error) {
    // The log of the build has less of a fault of a mirror.
    context.log.info({ op: "template.build", buildId, err: error }, "the image is not there");
    throw error;
  }
}
