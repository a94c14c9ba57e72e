/** A refusal as a page, for a person who has followed a link; programs get JSON. */

import type { IncomingHttpHeaders } from "node:http";

const BROWSER_PATTERN = /^Mozilla\/5\.0 \(/;
const SCRIPT_MODES: ReadonlySet<string> = new Set(["cors", "no-cors", "same-origin", "websocket"]);

/** Whether a browser has asked for something to show. */
export function wantsErrorPage(headers: IncomingHttpHeaders): boolean {
  const { "sec-fetch-mode": mode = "" } = headers;
  if (!BROWSER_PATTERN.test(headers["user-agent"] ?? "")) return false;
  const { accept = "" } = headers;
  if (accept.includes("json") && !accept.includes("text/html")) return false;
  if (mode === "navigate") return true;
  return !SCRIPT_MODES.has(mode) && headers["x-requested-with"] === undefined;
}

/** The page; nothing in it is loaded or run. */
export function toErrorPage(status: number, message: string): string {
  const text = escape(message);
  return [
    "<!doctype html>",
    '<html lang="en">',
    `<head><meta charset="utf-8"><title>${status}</title></head>`,
    `<body><h1>${status}</h1><p>${text}</p></body>`,
    "</html>",
    "",
  ].join("\n");
}

const ESCAPES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

function escape(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => ESCAPES[character] ?? "");
}
