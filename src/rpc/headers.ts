/**
 * Headers for the RPC library in the daemon, in the place of the platform's own: those come with all
 * of `fetch`, which takes 25 ms and 2 MiB to load. The build puts this class where the program names
 * `Headers` (scripts/build.ts), so nothing of the platform is changed. Known libraries sort names by
 * the rules of a language, whose tables take 11 ms to load.
 */

type Init = Iterable<readonly [string, string]> | Readonly<Record<string, string>>;

/** RFC 9110, 5.6.2. */
const NAME_PATTERN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
/** Nothing that could end a line, on the wire or in a log. */
const FORBIDDEN_PATTERN = /[\0\r\n]/;
/** The second begins at the first of its spaces alone: others would each read to the end again. */
const SPACE_AROUND_PATTERN = /^[\t\n\r ]+|(?<![\t\n\r ])[\t\n\r ]+$/g;
const COOKIE = "set-cookie";

/** Names and values as the Fetch standard treats them, without its guards for browsers. */
export class LightHeaders {
  /** By lower-case name, in the order in which values came. */
  readonly #values = new Map<string, string[]>();

  constructor(init: Init = []) {
    const pairs = Symbol.iterator in init ? init : Object.entries(init);
    for (const [name, value] of pairs) this.append(name, value);
  }

  append(name: string, value: string): void {
    const key = toName(name);
    const values = this.#values.get(key);
    if (values === undefined) this.#values.set(key, [toValue(value)]);
    else values.push(toValue(value));
  }

  set(name: string, value: string): void {
    this.#values.set(toName(name), [toValue(value)]);
  }

  delete(name: string): void {
    this.#values.delete(toName(name));
  }

  has(name: string): boolean {
    return this.#values.has(toName(name));
  }

  get(name: string): string | null {
    return this.#values.get(toName(name))?.join(", ") ?? null;
  }

  getSetCookie(): string[] {
    return [...(this.#values.get(COOKIE) ?? [])];
  }

  /** By name; every cookie by itself. */
  *entries(): IterableIterator<[string, string]> {
    for (const name of [...this.#values.keys()].toSorted()) {
      const values = this.#values.get(name) ?? [];
      if (name === COOKIE) for (const value of values) yield [name, value];
      else yield [name, values.join(", ")];
    }
  }

  *keys(): IterableIterator<string> {
    for (const [name] of this.entries()) yield name;
  }

  *values(): IterableIterator<string> {
    for (const [, value] of this.entries()) yield value;
  }

  forEach(visit: (value: string, name: string, headers: LightHeaders) => void): void {
    for (const [name, value] of this.entries()) visit(value, name, this);
  }

  [Symbol.iterator](): IterableIterator<[string, string]> {
    return this.entries();
  }
}

function toName(name: string): string {
  if (!NAME_PATTERN.test(name)) throw new TypeError("not a header name");
  return name.toLowerCase();
}

function toValue(value: string): string {
  const text = value.replaceAll(SPACE_AROUND_PATTERN, "");
  if (FORBIDDEN_PATTERN.test(text)) throw new TypeError("not a header value");
  return text;
}
