/** Templates of a cluster: images in a registry, each under the name that the configuration gives it. */

import { SandboxError } from "../common/errors.ts";
import { sha256Hex } from "../common/hash.ts";
import type { ContainerLimits } from "../engine/engine.ts";
import { paginate } from "../sandboxes/paging.ts";
import { DEFAULT_TAG } from "../sandboxes/templates/built-ins.ts";
import {
  requireReference,
  type ResolvedTemplate,
} from "../sandboxes/templates/resolve-template.ts";
import type { Templates } from "../sandboxes/templates/templates.ts";
import { DEFAULT_TEAM } from "../store/store.ts";
import { templateMissing } from "../wire/messages.ts";
import { missingAbility } from "./missing-abilities.ts";

const ID_CHARACTERS = 20;
const DEFAULT_USER = "user";
const DEFAULT_WORKDIR = "/home/user";

export interface PodImage {
  readonly name: string;
  readonly image: string;
  /** Whom processes belong to, where it is not `user` in its home. */
  readonly user?: string;
  readonly workdir?: string;
}

export interface ImageTemplates {
  /** What control and clients see of them. */
  readonly templates: Templates;
  /** @throws SandboxError invalid_argument when malformed, not_found. */
  find(reference: string): FoundTemplate;
}

export interface FoundTemplate {
  readonly image: string;
  readonly resolved: ResolvedTemplate;
}

/** The same identifiers in every front: they follow from the names. */
export function createImageTemplates(
  images: readonly PodImage[],
  limits: ContainerLimits,
): ImageTemplates {
  const known = images.map((image) => ({
    image: image.image,
    resolved: toResolved(image, limits),
  }));

  function peek(reference: string): FoundTemplate | undefined {
    const { namespace, alias, tag = DEFAULT_TAG } = requireReference(reference);
    if (namespace !== undefined || tag !== DEFAULT_TAG) return undefined;
    return known.find(
      ({ resolved: { template } }) => template.name === alias || template.templateId === alias,
    );
  }

  function find(reference: string): FoundTemplate {
    const found = peek(reference);
    if (found === undefined) throw new SandboxError("not_found", templateMissing(reference));
    return found;
  }

  return {
    find,
    templates: {
      resolve: async (reference) => find(reference).resolved,
      peek: (reference) => peek(reference)?.resolved.template,
      builds(template, page) {
        const builds = known.filter(({ resolved }) => resolved.template === template);
        return paginate(
          builds.map(({ resolved: { build } }) => build),
          { positionOf: ({ createdAtMs, buildId }) => ({ atMs: createdAtMs, id: buildId }) },
          page,
        );
      },
      list: () =>
        known.map(({ resolved: { template, build } }) => ({
          template,
          newest: build,
          buildCount: 1,
        })),
      async remove(reference) {
        // One that is not there is told first.
        find(reference);
        return refuse();
      },
      publish: refuse,
      tag: refuse,
      untag: refuse,
      tags: (reference) => {
        const { template, build } = find(reference).resolved;
        const { templateId, createdAtMs } = template;
        return [{ templateId, tag: DEFAULT_TAG, buildId: build.buildId, createdAtMs }];
      },
      assignments: refuse,
      toStored: refuse,
    },
  };
}

function toResolved(podImage: PodImage, limits: ContainerLimits): ResolvedTemplate {
  const { name, image, user = DEFAULT_USER, workdir = DEFAULT_WORKDIR } = podImage;
  const templateId = sha256Hex(`template ${name}`).slice(0, ID_CHARACTERS);
  const hex = sha256Hex(`build ${name} ${image}`);
  const parts = [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `4${hex.slice(13, 16)}`,
    `8${hex.slice(17, 20)}`,
  ];
  const times = { createdAtMs: 0, updatedAtMs: 0 };
  return {
    template: {
      ...times,
      templateId,
      kind: "built-in",
      team: DEFAULT_TEAM,
      name,
      isPublic: true,
      lastSpawnedAtMs: null,
      spawnCount: 0,
    },
    build: {
      ...times,
      buildId: [...parts, hex.slice(20, 32)].join("-"),
      templateId,
      owner: "",
      status: "ready",
      sourceSandboxId: null,
      finishedAtMs: 0,
      limits,
      layers: [],
      defaultUser: user,
      defaultWorkdir: workdir,
    },
  };
}

function refuse(): never {
  throw missingAbility("templates");
}
