/** What the engine tells this program, one JSON object a line; each is answered by a line. */

/** The first line. */
export interface Settings {
  /** Where everything here listens. */
  readonly address: string;
  readonly namePort: number;
  readonly webPort: number;
  readonly tlsPort: number;
  /** IPv4 addresses of name servers. */
  readonly resolvers: readonly string[];
  /** Networks that no name may lead to. */
  readonly never: readonly string[];
}

/** Every other line: the whole list of patterns of one sandbox; null forgets it. */
export interface ControlMessage {
  readonly sender: string;
  readonly domains: readonly string[] | null;
}

/** @throws TypeError for anything else. */
export function parseSettings(line: string): Settings {
  const { address, namePort, webPort, tlsPort, resolvers, never } = fieldsOf(line);
  if (typeof address !== "string" || !isStrings(resolvers) || !isStrings(never)) throw fault(line);
  if (!isPort(namePort) || !isPort(webPort) || !isPort(tlsPort)) throw fault(line);
  return { address, namePort, webPort, tlsPort, resolvers, never };
}

/** @throws TypeError for anything else. */
export function parseControlMessage(line: string): ControlMessage {
  const { sender, domains } = fieldsOf(line);
  if (typeof sender !== "string") throw fault(line);
  if (domains !== null && !isStrings(domains)) throw fault(line);
  return { sender, domains };
}

function fieldsOf(line: string): Partial<Record<string, unknown>> {
  const value: unknown = JSON.parse(line);
  if (typeof value !== "object" || value === null) throw fault(line);
  return { ...value };
}

function isStrings(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((entry) => typeof entry === "string");
}

function isPort(value: unknown): value is number {
  return typeof value === "number" && Number.isInteger(value) && value > 0 && value < 65_536;
}

function fault(line: string): TypeError {
  return new TypeError(`not an order: ${line.slice(0, 200)}`);
}
