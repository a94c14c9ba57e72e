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
  cancelOlder,
  NAMES,
  TAGS,
  type BuildModel,
  type Content,
  type Name,
  type Tag,
  type TemplateModel,
} from "./template-model.ts";
import { createPlan, createSlowPlan, hashOf, isOfContent, type Plan } from "./template-plan.ts";
import { ask, SequenceFault, type SequenceWorld } from "./world.ts";

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
const templateSchema = z.object({
  builds: z.array(z.object({ buildID: z.string(), finishedAt: z.string().optional() })),
});
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
        if (status === "waiting") fail(build);
        await delay(POLL_MS);
      }
    }
  }

  readonly #acts = [
    () => this.#buildAnything(),
    () => this.#buildAgain(),
    () => this.#buildAgain(),
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

  #buildAnything(): Promise<void> {
    const tags = [...new Set([this.#random.pick(TAGS), this.#random.pick(TAGS)])];
    return this.#build(this.#random.pick(NAMES), tags, createPlan(this.#random));
  }

  /** The second build of a tag begins while the first one runs. */
  async #buildAgain(): Promise<void> {
    const [name, tag] = [this.#random.pick(NAMES), this.#tag()];
    await this.#build(name, [tag], createSlowPlan(this.#random));
    await this.#build(name, [tag], createPlan(this.#random));
  }

  async #build(name: Name, tags: readonly Tag[], { plan, content }: Plan): Promise<void> {
    const isStartedTwice = this.#random.once(5);
    const template = this.#world.templates[name];
    const requested = await this.#call("POST /v3/templates", [202], { name, tags });
    if (requested === undefined) return;
    const { templateID: templateId, buildID: buildId } = requestedSchema.parse(requested.body);
    if (content.copied !== undefined && !(await this.#upload(templateId, content.copied))) return;
    const changes = tags.map((tag) => template.register(tag).begin(buildId));
    const ids = { buildId, templateId, name, tags };
    const unknown = { started: undefined, cancelled: undefined, end: undefined };
    const build: BuildModel = { ...ids, content, changes, ...unknown };
    this.#world.builds.push(build);
    const path = `/v2/templates/${templateId}/builds/${buildId}`;
    if (!(await this.#start(build, path, plan)) || !isStartedTwice) return;
    await this.#call(`POST ${path}`, [400, 404], plan);
  }

  /** Returns whether it is known to have begun. */
  async #start(build: BuildModel, path: string, plan: object): Promise<boolean> {
    const { builds, moments, templates } = this.#world;
    const beganAt = moments.next();
    const answer = await this.#call(`POST ${path}`, [202, 404], plan);
    if (answer?.status === 202) {
      build.started = { beganAt, endedAt: moments.next() };
      cancelOlder(builds, build);
      return true;
    }
    if (answer === undefined) return false;
    fail(build);
    if (templates[build.name].removals === 0)
      throw new SequenceFault(`build ${build.buildId} is missing: nobody removed it`);
    return false;
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
    const builds = this.#world.builds.filter((one) => one.name === name);
    const running = builds.filter((one) => one.end === undefined);
    const build = running.length > 0 ? this.#random.pick(running) : builds.at(-1);
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
    if (found === "error") fail(build);
    else await this.#succeed(build, found);
    const { reason } = found === "error" ? statusSchema.parse(answer.body) : {};
    if (found === "error" && !REASONS.test(reason?.message ?? ""))
      throw new SequenceFault(`build ${buildId} failed: ${JSON.stringify(reason)}`);
    return found;
  }

  /** Build and tags appear together, at the time that the template tells as long as it is there. */
  async #succeed(build: BuildModel, found: "ready" | "removed"): Promise<void> {
    const { buildId, templateId, cancelled } = build;
    build.end ??= found;
    const answer =
      found === "removed"
        ? undefined
        : await this.#call(`GET /templates/${templateId}`, [200, 404]);
    const told = answer?.status === 200 ? templateSchema.parse(answer.body).builds : [];
    const finishedAt = told.find((one) => one.buildID === buildId)?.finishedAt;
    if (finishedAt === undefined) {
      for (const change of build.changes) {
        if (found === "ready") change.done();
        // It may have been ready before.
        else change.unsure();
      }
      return;
    }
    const span = this.#world.moments.around(Date.parse(finishedAt));
    for (const change of build.changes) change.doneWithin(span);
    if (cancelled !== undefined && span.beganAt >= cancelled.at)
      throw new SequenceFault(`build ${buildId} is ready, though ${cancelled.by} cancelled it`);
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

/** Nothing of a build has come about, or will. */
function fail(build: BuildModel): void {
  build.end = "error";
  for (const change of build.changes) change.undone();
}
