/** The HTTP proxy by which this machine reaches addresses with TLS, as its variables name it. */

import { BlockList, isIP } from "node:net";

export interface OutboundProxy {
  /** As it was given, such as `http://user:password@proxy.example:3128`. */
  readonly url: string;
  /** Hosts, domains and networks that are reached without it. */
  readonly except: string;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Undefined where the variables name none. Of two spellings the small one counts, as for curl. */
export function findProxy(environment: Environment): OutboundProxy | undefined {
  const read = (name: string) => environment[name.toLowerCase()] ?? environment[name] ?? "";
  const url = read("HTTPS_PROXY");
  return url === "" ? undefined : { url, except: read("NO_PROXY") };
}

const LOOPBACK = /^(?:localhost|.+\.localhost|127(?:\.[0-9]{1,3}){3}|::1)$/;

/** Whether a host is reached without its proxy; this machine always is. */
export function isExcepted(except: string, host: string, port: number): boolean {
  const name = withoutBrackets(host.toLowerCase());
  if (LOOPBACK.test(name)) return true;
  const entries = except.toLowerCase().split(/[\s,]+/);
  return entries.some((entry) => entry !== "" && matches(entry, name, port));
}

function matches(entry: string, name: string, port: number): boolean {
  if (entry === "*") return true;
  if (entry.includes("/")) return isWithin(entry, name);
  const [, host = entry, only = port] = (isIP(entry) === 0 && /^(.+):([0-9]+)$/.exec(entry)) || [];
  if (Number(only) !== port) return false;
  const domain = withoutBrackets(host).replace(/^\*?\./, "");
  return name === domain || (isIP(name) === 0 && name.endsWith(`.${domain}`));
}

function isWithin(network: string, name: string): boolean {
  const [address = "", bits = ""] = network.split("/");
  const family = isIP(address);
  if (family === 0 || isIP(name) !== family || !/^[0-9]{1,3}$/.test(bits)) return false;
  const [type, most] = family === 6 ? (["ipv6", 128] as const) : (["ipv4", 32] as const);
  if (Number(bits) > most) return false;
  const list = new BlockList();
  list.addSubnet(address, Number(bits), type);
  return list.check(name, type);
}

function withoutBrackets(host: string): string {
  return host.replace(/^\[(.*)\]$/, "$1");
}
