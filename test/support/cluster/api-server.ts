/**
 * A small API server of Kubernetes for tests: objects of one namespace with versions, pages of lists and
 * watch by labels, merge patches that name a version, preconditions, bookmarks, expired versions, outages.
 */

import { randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { listenOnLoopback } from "../loopback.ts";

/** Longer than clients keep a connection, as of a real one: no request comes at its end. */
export const API_IDLE_MS = 75_000;

export interface StoredObject {
  kind: string;
  metadata: {
    name: string;
    uid: string;
    resourceVersion: string;
    labels?: Record<string, string>;
    deletionTimestamp?: string;
    deletionGracePeriodSeconds?: number;
    finalizers?: string[];
    ownerReferences?: { uid: string }[];
    creationTimestamp?: string;
  };
  [field: string]: unknown;
}

type EventType = "ADDED" | "MODIFIED" | "DELETED";

interface Watcher {
  readonly plural: string;
  readonly selector: string;
  readonly response: ServerResponse;
  /** What it is told later; undefined while it is told at once. */
  held?: string[] | undefined;
}

interface Refusal {
  readonly status: number;
  readonly reason: string;
  readonly message: string;
  /** Of a patch: it is answered then. */
  readonly after?: Promise<void>;
}

export interface TestApiServer extends AsyncDisposable {
  readonly url: string;
  /** By plural and name, such as `pods/NAME`. */
  readonly objects: ReadonlyMap<string, StoredObject>;
  /** Changes an object as another client would. */
  change(path: string, change: (object: StoredObject) => void): void;
  remove(path: string): void;
  /** Called for each change, as a kubelet sees it. */
  onChange(listener: (type: EventType, plural: string, object: StoredObject) => void): void;
  /** Watches end with an error of expired versions, and older versions are refused from now on. */
  expireVersions(): void;
  /** Sends the present version to every watch. */
  bookmark(): void;
  /** Every request is answered with this status until it is undefined again; watches are cut. */
  fail(status: number | undefined): void;
  /** Refuses so the next create of a kind, or the next patch of an object by its path. */
  refuseNext(target: string, reply: Refusal): void;
  /** Refuses such calls from now on, as `POST pods`; of those with a body the ones that are meant. */
  refuse(call: string, reply: Refusal, isMeant?: (body: unknown) => boolean): void;
  /** Carries out the next create of a kind or patch of a path, and cuts the connection in place of an answer. */
  loseNextReply(target: string): void;
  /** Cuts the connection of the next such call; what is returned carries it out, and resolves when that is done. */
  carryOutLate(call: string): () => Promise<void>;
  /** Does something before the next such call is carried out, written as those of `calls`. */
  before(call: string, work: () => Promise<void>): void;
  /** The watch that was the first of its kind and labels is told nothing until that is disposed of. */
  delayWatch(plural: string, selector: string): Disposable;
  /** What a path outside of the namespace answers to any method: a body, or a status alone. */
  provide(path: string, answer: object | number): void;
  /** As after a restore from a backup: versions are older, watches break, and no event tells of it. */
  restore(): void;
  /** Takes an object away, of which no watch tells. */
  lose(path: string): void;
  /** Requests that came, as `METHOD path`. */
  readonly calls: readonly string[];
}

const PATH_PATTERN =
  /^\/(?:api\/v1|apis\/(?:coordination|networking)\.k8s\.io\/v1)\/namespaces\/test\/([a-z]+)(?:\/([^/?]+))?$/;

export async function startApiServer(): Promise<TestApiServer> {
  const objects = new Map<string, StoredObject>();
  const watchers = new Set<Watcher>();
  const listeners: ((type: EventType, plural: string, object: StoredObject) => void)[] = [];
  const refusals = new Map<string, Refusal>();
  const lasting: ((call: string, body: unknown) => Refusal | undefined)[] = [];
  const lost = new Set<string>();
  const works = new Map<string, () => Promise<void>>();
  const late = new Map<string, { readonly released: Promise<void>; readonly done: () => void }>();
  const provided = new Map<string, object | number>();
  const calls: string[] = [];
  let version = 1_000;
  let oldest = 0;
  let failing: number | undefined;

  function tell(type: EventType, plural: string, object: StoredObject): void {
    const copy = structuredClone(object);
    for (const watcher of watchers) {
      if (watcher.plural !== plural || !matches(copy, watcher.selector)) continue;
      const line = `${JSON.stringify({ type, object: copy })}\n`;
      if (watcher.held === undefined) watcher.response.write(line);
      else watcher.held.push(line);
    }
    for (const listener of listeners) listener(type, plural, copy);
  }

  function touch(object: StoredObject): void {
    version += 1;
    object.metadata.resourceVersion = String(version);
  }

  function erase(path: string): void {
    const object = objects.get(path);
    if (object === undefined) return;
    objects.delete(path);
    touch(object);
    tell("DELETED", path.split("/")[0] ?? "", object);
    for (const [other, { metadata }] of objects) {
      if (metadata.ownerReferences?.some(({ uid }) => uid === object.metadata.uid)) erase(other);
    }
  }

  function change(path: string, work: (object: StoredObject) => void): void {
    const object = objects.get(path);
    if (object === undefined) throw new Error(`no ${path}`);
    work(object);
    touch(object);
    tell("MODIFIED", path.split("/")[0] ?? "", object);
  }

  function watch(plural: string, query: URLSearchParams, response: ServerResponse): void {
    const from = Number(query.get("resourceVersion"));
    if (from < oldest) return refuse(response, { status: 410, reason: "Expired", message: "" });
    response.writeHead(200, { "content-type": "application/json" });
    response.flushHeaders();
    const watcher: Watcher = { plural, selector: query.get("labelSelector") ?? "", response };
    // What changed since the list; what was removed is known by its absence in these tests.
    for (const [path, object] of objects) {
      const isNewer = Number(object.metadata.resourceVersion) > from;
      if (!path.startsWith(`${plural}/`) || !isNewer || !matches(object, watcher.selector))
        continue;
      response.write(`${JSON.stringify({ type: "ADDED", object })}\n`);
    }
    watchers.add(watcher);
    response.once("close", () => watchers.delete(watcher));
  }

  function list(plural: string, query: URLSearchParams, response: ServerResponse): void {
    const items = [...objects]
      .filter(([path]) => path.startsWith(`${plural}/`))
      .map(([, object]) => object)
      .filter((object) => matches(object, query.get("labelSelector") ?? ""));
    // The first page decides the version of all.
    const [listed = String(version), start = "0"] = query.get("continue")?.match(/[0-9]+/g) ?? [];
    if (Number(listed) < oldest) {
      return refuse(response, { status: 410, reason: "Expired", message: "" });
    }
    const end = Number(start) + Number(query.get("limit") ?? items.length);
    send(response, 200, {
      metadata: {
        resourceVersion: listed,
        ...(end < items.length && { continue: `${listed}.${end}` }),
      },
      items: items.slice(Number(start), end),
    });
  }

  /** The planned refusal of this request, once. */
  function takeRefusal(target: string) {
    const refusal = refusals.get(target);
    refusals.delete(target);
    return refusal;
  }

  function create(plural: string, body: StoredObject, response: ServerResponse): void {
    const refusal = takeRefusal(plural);
    if (refusal !== undefined) return refuse(response, refusal);
    const path = `${plural}/${body.metadata.name}`;
    if (objects.has(path)) {
      return refuse(response, { status: 409, reason: "AlreadyExists", message: path });
    }
    const creationTimestamp = new Date().toISOString().replace(/\.[0-9]+/, "");
    const made = { uid: randomUUID(), resourceVersion: "", creationTimestamp };
    const metadata = { ...body.metadata, ...made };
    const object = { ...body, metadata };
    touch(object);
    objects.set(path, object);
    if (lost.delete(plural)) response.destroy();
    else send(response, 201, object);
    tell("ADDED", plural, object);
  }

  function patch(path: string, body: StoredObject, response: ServerResponse): void {
    const object = objects.get(path);
    if (object === undefined) return refuse(response, NOT_FOUND);
    const { resourceVersion } = body.metadata ?? {};
    if (resourceVersion !== undefined && resourceVersion !== object.metadata.resourceVersion) {
      return refuse(response, { status: 409, reason: "Conflict", message: path });
    }
    merge(object, body);
    touch(object);
    if (lost.delete(path)) response.destroy();
    else send(response, 200, object);
    tell("MODIFIED", path.split("/")[0] ?? "", object);
  }

  function remove(path: string, body: unknown, response: ServerResponse): void {
    const object = objects.get(path);
    if (object === undefined) return refuse(response, NOT_FOUND);
    const { uid, resourceVersion } = { ...object.metadata, ...Object(body).preconditions };
    if (uid !== object.metadata.uid || resourceVersion !== object.metadata.resourceVersion) {
      return refuse(response, { status: 409, reason: "Conflict", message: path });
    }
    if ((object.metadata.finalizers ?? []).length > 0) {
      change(path, ({ metadata }) => {
        metadata.deletionTimestamp ??= new Date().toISOString();
        metadata.deletionGracePeriodSeconds = Object(body).gracePeriodSeconds ?? 1;
      });
      return send(response, 200, object);
    }
    send(response, 200, { kind: "Status", status: "Success" });
    erase(path);
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "", "http://api");
    const [, plural = "", name] = PATH_PATTERN.exec(url.pathname) ?? [];
    const path = `${plural}/${name}`;
    const call = `${request.method} ${name === undefined ? plural : path}`;
    calls.push(call);
    const text = await textOf(request);
    const held = late.get(call);
    late.delete(call);
    if (held !== undefined) {
      // What answers it finds nobody.
      response.on("error", () => undefined).destroy();
      await held.released;
      setImmediate(held.done);
    }
    const work = works.get(call);
    works.delete(call);
    await work?.();
    if (failing !== undefined) {
      return refuse(response, { status: failing, reason: "", message: "planned outage" });
    }
    const known = provided.get(url.pathname);
    if (typeof known === "number") {
      const reason = known === NOT_FOUND.status ? NOT_FOUND.reason : "";
      return refuse(response, { status: known, reason, message: "planned refusal" });
    }
    if (known !== undefined) return send(response, 200, known);
    if (plural === "") return refuse(response, NOT_FOUND);
    const body = text === "" ? undefined : JSON.parse(text);
    for (const find of lasting) {
      const refusal = find(`${request.method} ${plural}`, body);
      if (refusal !== undefined) return refuse(response, refusal);
    }
    if (request.method === "POST") return create(plural, body, response);
    if (request.method === "PATCH") {
      const refusal = takeRefusal(path);
      await refusal?.after;
      return refusal === undefined ? patch(path, body, response) : refuse(response, refusal);
    }
    if (request.method === "DELETE") return remove(path, body, response);
    if (url.searchParams.get("watch") === "true") return watch(plural, url.searchParams, response);
    if (name === undefined) return list(plural, url.searchParams, response);
    const object = objects.get(path);
    return object === undefined ? refuse(response, NOT_FOUND) : send(response, 200, object);
  }

  const server = createServer({ keepAliveTimeout: API_IDLE_MS }, (request, response) => {
    answer(request, response).catch((error: unknown) => {
      refuse(response, { status: 500, reason: "", message: String(error) });
    });
  });
  const port = await listenOnLoopback(server);
  return {
    url: `http://127.0.0.1:${port}`,
    objects,
    calls,
    change,
    remove: erase,
    onChange: (listener) => void listeners.push(listener),
    expireVersions() {
      version += 1;
      oldest = version;
      const object = { kind: "Status", code: 410, reason: "Expired" };
      for (const { response } of watchers) {
        response.end(`${JSON.stringify({ type: "ERROR", object })}\n`);
      }
    },
    bookmark() {
      for (const { response } of watchers) {
        const object = { metadata: { resourceVersion: String(version) } };
        response.write(`${JSON.stringify({ type: "BOOKMARK", object })}\n`);
      }
    },
    fail(status) {
      failing = status;
      if (status !== undefined) for (const { response } of watchers) response.destroy();
    },
    provide: (path, known) => void provided.set(path, known),
    loseNextReply: (target) => void lost.add(target),
    carryOutLate(call) {
      const released = Promise.withResolvers<void>();
      const done = Promise.withResolvers<void>();
      late.set(call, { released: released.promise, done: done.resolve });
      return async () => {
        released.resolve();
        await done.promise;
      };
    },
    before: (call, work) => void works.set(call, work),
    delayWatch(plural, selector) {
      const watcher = [...watchers].find(
        (one) => one.plural === plural && one.selector === selector,
      );
      if (watcher === undefined) throw new Error(`no watch of ${plural}`);
      watcher.held = [];
      return {
        [Symbol.dispose]() {
          for (const line of watcher.held ?? []) watcher.response.write(line);
          watcher.held = undefined;
        },
      };
    },
    refuse(call, reply, isMeant = () => true) {
      lasting.push((made, body) => (made === call && isMeant(body) ? reply : undefined));
    },
    restore() {
      version = 100;
      for (const object of objects.values()) touch(object);
      for (const { response } of watchers) response.destroy();
    },
    lose: (path) => void objects.delete(path),
    refuseNext: (target, reply) => void refusals.set(target, reply),
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
    },
  };
}

const NOT_FOUND = { status: 404, reason: "NotFound", message: "not found" };

function send(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}

function refuse(response: ServerResponse, { status, reason, message }: Refusal): void {
  send(response, status, { kind: "Status", status: "Failure", code: status, reason, message });
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const part of request) text += String(part);
  return text;
}

function matches({ metadata: { labels = {} } }: StoredObject, selector: string): boolean {
  const parts = selector.split(/,(?![^(]*\))/).filter((part) => part !== "");
  return parts.every((part) => {
    const [, key = "", values = ""] = /^(.+) in \((.*)\)$/.exec(part) ?? [];
    if (key !== "") return values.split(",").includes(labels[key] ?? "");
    return labels[part.split("=")[0] ?? ""] === part.split("=")[1];
  });
}

/** RFC 7396, in place. */
function merge(target: Record<string, unknown>, patch: object): void {
  for (const [key, value] of Object.entries(patch)) {
    const known = target[key];
    if (value === null) delete target[key];
    else if (isPlain(value) && isPlain(known)) merge(known, value);
    else target[key] = value;
  }
}

function isPlain(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
