/** Whether a home has no template for clients to name, and can have none built. */

import { SandboxError } from "../../common/errors.ts";
import type { Config } from "../../config.ts";
import { findBuildLack, type BuildLack } from "../../engine/templates/base.ts";
import { hasImage } from "../../sandboxes/builds/layer-folders.ts";
import { commandLine } from "../program/command-line.ts";
import { findBase, hasLostModes, listLayers } from "./base-layers.ts";

/** What the machine lacks to build `base`; undefined also where the home has that, or templates of images. */
export async function findTemplateLack(
  home: string,
  lack: BuildLack | undefined = findBuildLack(),
): Promise<BuildLack | undefined> {
  if (lack === undefined || (await findBase(home)) !== undefined) return undefined;
  return hasImage(await listLayers(home)) ? undefined : lack;
}

/** @throws SandboxError unavailable where there is no base and none can be built, nor a template of an image. */
export async function requireBase(config: Config): Promise<void> {
  const { home, buildsBase } = config;
  if ((await findBase(home)) !== undefined) return;
  const off = { detail: "--build-base is off", hint: commandLine(config, "template pull base") };
  const lack = (await findTemplateLack(home)) ?? (buildsBase ? undefined : off);
  if (lack === undefined) return;
  const state = (await hasLostModes(home, "base"))
    ? "has lost modes of its files"
    : "was not built";
  throw new SandboxError("unavailable", `the template base ${state}: ${lack.detail}`, {
    hint: lack.hint,
  });
}
