/** API keys of teams: made by the built program with the rights of the fronts, used, revoked. */

import { Sandbox } from "e2b";
import { eventually, expectNothing, type World } from "../world.ts";
import { runMain } from "./doctor.ts";
import { clientOf } from "./faults.ts";
import { send } from "./images.ts";

/** A key counts at every front some seconds after it was made. */
const COUNT_MS = 15_000;

export async function runTeams(world: World): Promise<void> {
  let key = "";
  await world.check(
    "teams: a key is made, listed by its mask, and counts at both fronts",
    async () => {
      key = (await runKey(world, "create alice --team research")).trim().split("\n").at(-1) ?? "";
      if (!/^e2b_[0-9a-f]{40}$/.test(key)) throw new Error("no key");
      for (const { url } of world.fronts) await expectStatus({ url, apiKey: key }, 200);
      const listed = await runKey(world, "list");
      if (listed.includes(key) || !/ research {2}alice$/m.test(listed)) throw new Error(listed);
      return listed.trim();
    },
  );
  await world.check("teams: each sees what is its own", async () => {
    const [own, other] = [clientOf(world.url, key), clientOf(world.url, world.apiKey)];
    const sandbox = await Sandbox.create(own);
    const { stdout } = await sandbox.commands.run("id -un");
    const seen = await send(world, `GET /sandboxes/${sandbox.sandboxId}`);
    const killed = await Sandbox.kill(sandbox.sandboxId, other);
    await sandbox.kill();
    if (stdout !== "user\n" || seen.status !== 404 || killed)
      throw new Error(`${stdout} ${seen.status}`);
    await eventually(() => expectNothing(world.admin));
  });
  await world.check("teams: a key that is revoked opens no front", async () => {
    const text = await runKey(world, "revoke alice");
    for (const { url } of world.fronts) await expectStatus({ url, apiKey: key }, 401);
    return text.trim();
  });
}

async function runKey({ cluster, account }: World, words: string): Promise<string> {
  const service = `--engine kubernetes --kubernetes-url ${cluster.url} --kubernetes-account ${account}`;
  const { status, text } = await runMain(`key ${words} ${service}`);
  if (status !== 0) throw new Error(`${status} ${text}`);
  return text.replaceAll(/^sandbox-mcp: .*\n/gm, "");
}

async function expectStatus(place: Pick<World, "url" | "apiKey">, wanted: number): Promise<void> {
  await eventually(async () => {
    const { status } = await send(place, "GET /sandboxes");
    if (status !== wanted) throw new Error(`${place.url}: ${status}`);
  }, COUNT_MS);
}
