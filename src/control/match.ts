/** From method and raw path to a row of the table. */

import { SandboxError } from "../common/errors.ts";
import { MESSAGES } from "../wire/messages.ts";
import type { Route } from "./route.ts";

export interface Match {
  readonly route: Route;
  readonly params: Readonly<Record<string, string>>;
}

/**
 * Finds the route of a path that is matched as it was sent: an encoded slash does not separate.
 * A literal segment wins over a parameter. A fault is returned, not thrown: the caller's key comes
 * first.
 */
export function matchRoute(
  routes: readonly Route[],
  method: string,
  rawPath: string,
): Match | SandboxError {
  const segments = rawPath.split("/").slice(1);
  let isKnownPath = false;
  let best: Route | undefined;
  for (const route of routes) {
    if (!fits(route, segments)) continue;
    isKnownPath = true;
    if (route.method === method && (best === undefined || isMoreLiteral(route, best))) best = route;
  }
  if (best !== undefined) return withParams(best, segments);
  if (isKnownPath) return new SandboxError("invalid_argument", MESSAGES.methodUnknown);
  return new SandboxError("not_found", MESSAGES.pathUnknown);
}

function patternOf(route: Route): string[] {
  return route.path.split("/").slice(1);
}

function isParameter(segment: string): boolean {
  return segment.startsWith("{");
}

function fits(route: Route, segments: readonly string[]): boolean {
  const pattern = patternOf(route);
  const isOpen = pattern.at(-1) === "*";
  if (isOpen ? segments.length < pattern.length : segments.length !== pattern.length) return false;
  return pattern.every((expected, index) => {
    if (expected === "*") return true;
    const actual = segments[index];
    return isParameter(expected) ? actual !== "" : actual === expected;
  });
}

function isMoreLiteral(left: Route, right: Route): boolean {
  return countParameters(left) < countParameters(right);
}

function countParameters(route: Route): number {
  return patternOf(route).filter(isParameter).length;
}

function withParams(route: Route, segments: readonly string[]): Match | SandboxError {
  const params: Record<string, string> = {};
  for (const [index, expected] of patternOf(route).entries()) {
    if (!isParameter(expected)) continue;
    const value = decode(segments[index] ?? "");
    if (value === undefined) {
      return new SandboxError("invalid_argument", "validation error: path is not decodable");
    }
    params[expected.slice(1, -1)] = value;
  }
  return { route, params };
}

function decode(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment);
  } catch (error) {
    if (error instanceof URIError) return undefined;
    throw error;
  }
}
