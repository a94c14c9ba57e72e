/**
 * A client that builds, tags, publishes, starts and removes templates at random beside others, and
 * compares every answer with what it may be. Its choices follow from its seed alone.
 */

import { setTimeout as delay } from "node:timers/promises";
import { z } from "../../../src/common/schema.ts";
import type { Answer } from "../faults/fault-home.ts";
import { tar, tarEntry } from "../images/tar-writer.ts";
import type { ActRandom } from "./act-random.ts";
import {
  NAMES,
  TAGS,
  type BuildModel,
  type Content,
  type Name,
  type Tag,
  type TemplateModel,
} from "./template-model.ts";
import { ask, SequenceFault, type SequenceWorld } from "./world.ts";

const MARKS = ["m0", "m1", "m2"];
const POLL_MS = 50;
/** Of builds of one template that are over, no more are told of. */
const MAX_KEPT_BUILDS = 50;
/** Reasons that other calls are, or the end of the service. */
const REASONS = /^cancelled: |was removed|the service ended|not found|does not exist for template/i;

const requestedSchema = z.object({ templateID: z.string(), buildID: z.string() });
const filesSchema = z.object({ present: z.boolean(), url: z.string() });
const statusSchema = z.object({
  status: z.enum(["waiting", "building", "ready", "error"]),
  reason: z.object({ message: z.string() }).optional(),
});
const tagsSchema = z.array(z.object({ tag: z.string(), buildID: z.string() }));
const assignedSchema = z.object({ buildID: z.string() });
const createdSchema = z.object({ sandboxID: z.string(), templateID: z.string() });
const variablesSchema = z.object({ MARK: z.string().optional() });

export interface TemplateWorld extends SequenceWorld {
  readonly templates: Readonly<Record<Name, TemplateModel>>;
  readonly builds: BuildModel[];
}

interface Own {
  readonly id: string;
  readonly templateId: string;
  readonly name: Name;
}

export class TemplateClient {
  readonly #world: TemplateWorld;
  readonly #random: ActRandom;
  readonly #client: string;
  #own: Own | undefined;

  constructor(world: TemplateWorld, random: ActRandom, client: string) {
    this.#world = world;
    this.#random = random;
    this.#client = client;
  }

  async run(): Promise<void> {
    while (this.#world.calls < this.#world.maxCalls) {
      this.#random.nextAct();
      await this.#random.pick(this.#acts)();
    }
  }

  /** Each build that was begun ends. */
  async followAll(): Promise<void> {
    for (const build of this.#world.builds) {
      while (build.end === undefined) {
        const status = await this.#follow(build);
        // Its start was lost with the service.
        if (status === "waiting") end(build, "error");
        await delay(POLL_MS);
      }
    }
  }

  readonly #acts = [
    () => this.#build(),
    () => this.#build(),
    () => this.#build(),
    () => this.#followOne(),
    () => this.#followOne(),
    () => this.#followOne(),
    () => this.checkTags(this.#random.pick(NAMES)),
    () => this.checkTags(this.#random.pick(NAMES)),
    () => this.#assign(),
    () => this.#untag(),
    () => this.#publish(),
    () => this.#remove(),
    () => this.#makeSandbox(),
    () => this.#makeSandbox(),
    () => this.#endSandbox(),
    () => this.#endSandbox(),
  ];

  #ask(words: string, statuses: readonly number[], call: () => Promise<Answer | undefined>) {
    return ask(this.#world, { words: `${this.#client} ${words}`, statuses }, call);
  }

  /** The route is a method and a path. */
  #call(route: string, statuses: readonly number[], body?: unknown) {
    const [method = "", path = ""] = route.split(" ");
    const words = `${route} ${JSON.stringify(body) ?? ""}`;
    return this.#ask(words, statuses, () => this.#world.home.call(method, path, body));
  }

  async #build(): Promise<void> {
    const name = this.#random.pick(NAMES);
    const tags = [...new Set([this.#random.pick(TAGS), this.#random.pick(TAGS)])];
    const { plan, content } = this.#plan();
    const isStartedTwice = this.#random.once(5);
    const template = this.#world.templates[name];
    const requested = await this.#call("POST /v3/templates", [202], { name, tags });
    if (requested === undefined) return;
    const { templateID: templateId, buildID: buildId } = requestedSchema.parse(requested.body);
    if (content.copied !== undefined && !(await this.#upload(templateId, content.copied))) return;
    const changes = tags.map((tag) => template.register(tag).begin(buildId));
    const build: BuildModel = { buildId, templateId, name, content, changes, end: undefined };
    this.#world.builds.push(build);
    const path = `/v2/templates/${templateId}/builds/${buildId}`;
    const started = await this.#call(`POST ${path}`, [202, 404], plan);
    if (started?.status !== 404) {
      if (isStartedTwice && started !== undefined)
        await this.#call(`POST ${path}`, [400, 404], plan);
      return;
    }
    end(build, "error");
    if (template.removals === 0)
      throw new SequenceFault(`build ${buildId} is missing: nobody removed it`);
  }

  #plan(): { readonly plan: object; readonly content: Content } {
    const mark = this.#random.pick(MARKS);
    const written = this.#random.once(4) ? this.#random.pick(MARKS) : undefined;
    const copied = this.#random.once(5) ? this.#random.pick(MARKS) : undefined;
    const upon = `${this.#random.pick(NAMES)}:${this.#random.pick(TAGS)}`;
    const fromTemplate = this.#random.once(5) ? upon : "base";
    const force = this.#random.once(8);
    const command = `sleep 0.${this.#random.below(5)}; echo ${written} > /home/user/written`;
    const steps = [
      { type: "ENV", args: ["MARK", mark] },
      ...(written === undefined ? [] : [{ type: "RUN", args: [command], force }]),
      ...(copied === undefined
        ? []
        : [{ type: "COPY", args: ["a.txt", "/home/user/", "", ""], filesHash: hashOf(copied) }]),
    ];
    return { plan: { fromTemplate, steps }, content: { mark, written, copied } };
  }

  /** Returns whether it is known to be there. */
  async #upload(templateId: string, copied: string): Promise<boolean> {
    const { home } = this.#world;
    const path = `/templates/${templateId}/files/${hashOf(copied)}`;
    const files = await this.#call(`GET ${path}`, [201, 404]);
    if (files?.status !== 201) return false;
    const { present, url } = filesSchema.parse(files.body);
    if (present) return true;
    const archive = new Uint8Array(tar(tarEntry({ path: "a.txt", data: copied })));
    const sent = await this.#ask(`upload ${copied}`, [201], () => home.put(url, archive));
    return sent !== undefined;
  }

  async #followOne(): Promise<void> {
    const name = this.#random.pick(NAMES);
    const build = this.#world.builds.findLast((one) => one.name === name);
    if (build !== undefined) await this.#follow(build);
  }

  /** Undefined where the service did not answer. */
  async #follow(build: BuildModel): Promise<string | undefined> {
    const { buildId, templateId, name } = build;
    const path = `/templates/${templateId}/builds/${buildId}/status?limit=0`;
    const before = build.end;
    const answer = await this.#call(`GET ${path}`, [200, 404]);
    if (answer === undefined) return undefined;
    const found = answer.status === 404 ? "removed" : statusSchema.parse(answer.body).status;
    // What has ended changes no more, but for its removal.
    if (before !== undefined && found !== "removed" && found !== before)
      throw new SequenceFault(`build ${buildId} was ${before}, and is ${found}`);
    const { builds, templates } = this.#world;
    const ofTemplate = builds.filter((one) => one.templateId === templateId);
    const isKept = ofTemplate.length <= MAX_KEPT_BUILDS && templates[name].removals === 0;
    if (found === "removed" && isKept)
      throw new SequenceFault(`build ${buildId} is missing: nobody removed it`);
    if (found === "waiting" || found === "building" || build.end !== undefined) return found;
    end(build, found);
    const { reason } = found === "error" ? statusSchema.parse(answer.body) : {};
    if (found === "error" && !REASONS.test(reason?.message ?? ""))
      throw new SequenceFault(`build ${buildId} failed: ${JSON.stringify(reason)}`);
    return found;
  }

  /** Its tags name builds that some order of the calls leaves there. */
  async checkTags(name: Name): Promise<void> {
    const beganAt = this.#world.moments.next();
    const answer = await this.#call(`GET /templates/${name}/tags`, [200, 404]);
    if (answer === undefined) return;
    const found = answer.status === 404 ? [] : tagsSchema.parse(answer.body);
    for (const [tag, register] of this.#world.templates[name].tags) {
      const buildId = found.find((one) => one.tag === tag)?.buildID;
      if (register.fits(beganAt, (value) => value === buildId)) continue;
      const possible = [...register.possible(beganAt)].join(" or ");
      throw new SequenceFault(`${name}:${tag} is ${buildId}, not ${possible}`);
    }
  }

  async #assign(): Promise<void> {
    const [name, from, to] = [this.#random.pick(NAMES), this.#tag(), this.#tag()];
    const { moments, templates } = this.#world;
    const beganAt = moments.next();
    const change = templates[name].register(to).beginUnknown();
    const body = { target: `${name}:${from}`, tags: [to] };
    const answer = await this.#call("POST /templates/tags", [201, 404], body);
    if (answer === undefined) return;
    if (answer.status === 404) {
      change.undone();
      this.#requireMissing(name, from, beganAt);
      return;
    }
    const { buildID } = assignedSchema.parse(answer.body);
    change.done({ is: buildID });
  }

  #tag(): Tag {
    return this.#random.pick(TAGS);
  }

  #requireMissing(name: Name, tag: Tag, beganAt: number): void {
    const register = this.#world.templates[name].register(tag);
    if (register.fits(beganAt, (value) => value === undefined)) return;
    throw new SequenceFault(`${name}:${tag} is not found`);
  }

  async #untag(): Promise<void> {
    const [name, tag] = [this.#random.pick(NAMES), this.#random.pick(["a", "b"] as const)];
    const beganAt = this.#world.moments.next();
    const change = this.#world.templates[name].register(tag).begin(undefined);
    const answer = await this.#call("DELETE /templates/tags", [204, 404], { name, tags: [tag] });
    if (answer === undefined) return change.unsure();
    if (answer.status === 204) return change.done();
    change.undone();
    this.#requireMissing(name, tag, beganAt);
  }

  async #publish(): Promise<void> {
    const path = `/v2/templates/${this.#random.pick(NAMES)}`;
    await this.#call(`PATCH ${path}`, [200, 404], { public: this.#random.once(2) });
  }

  async #remove(): Promise<void> {
    const name = this.#random.pick(NAMES);
    if (!this.#random.once(2)) return;
    const template = this.#world.templates[name];
    const { sandboxes } = template;
    const changes = TAGS.map((tag) => template.register(tag).begin(undefined));
    template.removals += 1;
    const answer = await this.#call(`DELETE /templates/${name}`, [204, 400, 404]);
    for (const change of changes) {
      if (answer === undefined) change.unsure();
      else if (answer.status === 204) change.done();
      else change.undone();
    }
    if (answer?.status === 400 && sandboxes === 0 && template.sandboxes === 0)
      throw new SequenceFault(`${name} is in use by nobody: ${JSON.stringify(answer)}`);
  }

  async #makeSandbox(): Promise<void> {
    const [name, tag] = [this.#random.pick(NAMES), this.#tag()];
    if (this.#own !== undefined) return;
    const { moments, templates } = this.#world;
    const beganAt = moments.next();
    const body = { templateID: `${name}:${tag}`, timeout: 3600, secure: false };
    templates[name].sandboxes += 1;
    const answer = await this.#call("POST /sandboxes", [201, 404], body);
    // Without an answer it may be there until the end.
    if (answer === undefined) return;
    if (answer.status === 404) {
      templates[name].sandboxes -= 1;
      this.#requireMissing(name, tag, beganAt);
      return;
    }
    const { sandboxID: id, templateID: templateId } = createdSchema.parse(answer.body);
    const own = { id, templateId, name };
    this.#own = own;
    const content = await this.#look(own);
    if (content === undefined) return;
    const { builds } = this.#world;
    const isOf = (buildId: string | undefined) => {
      const wanted = builds.find((build) => build.buildId === buildId)?.content;
      return wanted !== undefined && isOfContent(content, wanted);
    };
    if (!templates[name].register(tag).fits(beganAt, isOf))
      throw new SequenceFault(`a sandbox of ${name}:${tag} has ${JSON.stringify(content)}`);
  }

  /** Undefined where the service did not answer. */
  async #look({ id }: Own): Promise<Content | undefined> {
    const { home } = this.#world;
    const enter = (path: string) =>
      this.#ask(`${path} of ${id}`, [200, 404], () => home.enter(id, path));
    const variables = await enter("/envs");
    const written = await enter("/files?username=user&path=/home/user/written");
    const copied = await enter("/files?username=user&path=/home/user/a.txt");
    if (variables === undefined || written === undefined || copied === undefined) return undefined;
    const body: unknown =
      typeof variables.body === "string" ? JSON.parse(variables.body) : variables.body;
    return {
      mark: variablesSchema.parse(body).MARK ?? "",
      written: written.status === 404 ? undefined : String(written.body).trim(),
      copied: copied.status === 404 ? undefined : String(copied.body),
    };
  }

  /** As long as there was one, its template is there. */
  async #endSandbox(): Promise<void> {
    const own = this.#own;
    if (own === undefined || this.#random.once(3)) return;
    await this.#call(`GET /templates/${own.templateId}`, [200]);
    this.#own = undefined;
    const answer = await this.#call(`DELETE /sandboxes/${own.id}`, [204]);
    if (answer !== undefined) this.#world.templates[own.name].sandboxes -= 1;
  }
}

/** Nothing of a build comes about any more. */
function end(build: BuildModel, how: "ready" | "error" | "removed"): void {
  build.end = how;
  for (const change of build.changes) {
    if (how === "ready") change.done();
    else if (how === "error") change.undone();
    // It may have been ready before.
    else change.unsure();
  }
}

/** A template upon another one may have more than its own plan says. */
function isOfContent(found: Content, wanted: Content): boolean {
  return (
    found.mark === wanted.mark &&
    (wanted.written === undefined || found.written === wanted.written) &&
    (wanted.copied === undefined || found.copied === wanted.copied)
  );
}

function hashOf(copied: string): string {
  return Buffer.from(copied).toString("hex").padEnd(64, "0");
}
