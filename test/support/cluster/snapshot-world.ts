/** Two fronts with snapshots in a registry of the test, which asks for a login. */

import { mkdir, rm, writeFile } from "node:fs/promises";
import { userInfo } from "node:os";
import { join } from "node:path";
import { expect } from "vitest";
import type { PodSandboxesOptions } from "../../../src/cluster/pod-sandboxes.ts";
import { startRegistry, type RegistryOptions } from "../images/registry.ts";
import { tar } from "../images/tar-writer.ts";
import { makeTempFolder } from "../temp-folder.ts";
import { sendFront, startPodWorld, type PodWorld, type PodWorldOptions } from "./pod-front.ts";
import { applyLayer, putImage, readImage, toStream } from "./pod-images.ts";

/** `tester`, `secret`. */
const LOGIN = "tester:$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a";
export const BASIC = {
  authorization: `Basic ${Buffer.from("tester:secret").toString("base64")}`,
};

export interface SnapshotWorld extends AsyncDisposable {
  readonly world: PodWorld;
  readonly url: string;
  readonly second: string;
  /** Of a front that offers no snapshots. */
  startPlain(): Promise<string>;
  /** Of the images of snapshots. */
  readonly snapshots: string;
  /** Below which each sandbox has its files. */
  readonly directory: string;
}

interface SnapshotWorldOptions extends Pick<RegistryOptions, "canDelete"> {
  /** What fronts have beyond snapshots. */
  readonly more?: Partial<PodSandboxesOptions>;
  /** Of the usual graces, where no front that lives is slow to say so. */
  readonly graceShare?: number;
  readonly through?: PodWorldOptions["through"];
}

/** A sandbox with a file that its image lacks. */
export async function createWritten(
  { url, directory }: SnapshotWorld,
  more: object = {},
): Promise<string> {
  const wish = { templateID: "base", timeout: 300, ...more };
  const { status, body } = await sendFront(url, "POST /sandboxes", wish);
  expect({ status, body }).toMatchObject({ status: 201 });
  await writeFile(join(directory, body.sandboxID, "etc/new"), "new");
  return body.sandboxID;
}

export async function createPaused(place: SnapshotWorld): Promise<string> {
  const id = await createWritten(place);
  expect((await sendFront(place.url, `POST /sandboxes/${id}/pause`)).status).toBe(204);
  return id;
}

export async function startSnapshotWorld({
  graceShare,
  more,
  through,
  ...given
}: SnapshotWorldOptions = {}): Promise<SnapshotWorld> {
  await using stack = new AsyncDisposableStack();
  const directory = stack.use(await makeTempFolder()).path;
  const { host } = stack.use(
    await startRegistry({ ...given, directory: join(directory, "registry"), login: LOGIN }),
  );
  const registry = `http://${host}/v2`;
  const layer = tar(
    { path: "etc/", type: "5", mode: 0o755 },
    { path: "etc/kept", data: "kept" },
    { path: "etc/gone", data: "gone" },
  );
  await putImage(`${registry}/templates/base`, { tag: "1", layer, headers: BASIC });
  const loginFile = join(directory, "config.json");
  const auth = Buffer.from("tester:secret").toString("base64");
  await writeFile(loginFile, JSON.stringify({ auths: { [host]: { auth } } }));

  /** What a kubelet does: the layers of the image, one upon the other. */
  async function makeFilesNow(name: string, image: string) {
    const [, repository = "", reference = ""] =
      /^[^/]+\/(.+?)(?:@|:(?=[^/:]*$))(.+)$/.exec(image) ?? [];
    const root = join(directory, name);
    // A Pod of the same name begins with its image alone.
    await rm(root, { recursive: true, force: true });
    await rm(`${root}.baseline`, { force: true });
    await mkdir(root);
    const { layers } = await readImage(`${registry}/${repository}`, reference, BASIC);
    for (const one of layers) await applyLayer(root, toStream(one));
    return { root, baselineFile: `${root}.baseline`, leftOut: [] };
  }

  const makings = new Map<string, Promise<unknown>>();
  /** Pods of one name one after the other. */
  async function makeFiles(name: string, image: string) {
    const before = makings.get(name);
    const making = Promise.allSettled([before]).then(async () => makeFilesNow(name, image));
    makings.set(name, making);
    return making;
  }

  const world = stack.use(await startPodWorld({ files: makeFiles, ...(through && { through }) }));
  const { username: user } = userInfo();
  const images = [{ name: "base", image: `${host}/templates/base:1`, user, workdir: directory }];
  const settings = {
    images,
    snapshotSettings: { registry: `${host}/team/snapshots`, loginFile },
    graceShare,
    ...more,
  };
  const { url } = await world.start(settings);
  const { url: second } = await world.start(settings);
  const owned = stack.move();
  return {
    world,
    url,
    second,
    startPlain: async () => (await world.start({ images })).url,
    snapshots: `${registry}/team/snapshots`,
    directory,
    [Symbol.asyncDispose]: async () => owned.disposeAsync(),
  };
}
