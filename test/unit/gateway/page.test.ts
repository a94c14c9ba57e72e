/** Who is shown a page instead of JSON, and that a page is only text. */

import { expect, test } from "vitest";
import { toErrorPage, wantsErrorPage } from "../../../src/gateway/refusal.ts";
import { MESSAGES } from "../../../src/wire/messages.ts";

const FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
const SHOWN = { "user-agent": FIREFOX, accept: "text/html,application/xhtml+xml,*/*;q=0.8" };

test.for<{ name: string; headers: Record<string, string>; isPage: boolean }>([
  { name: "a browser", headers: SHOWN, isPage: true },
  { name: "a followed link", headers: { ...SHOWN, "sec-fetch-mode": "navigate" }, isPage: true },
  { name: "a program", headers: { ...SHOWN, "user-agent": "curl/8.0" }, isPage: false },
  { name: "nobody in particular", headers: {}, isPage: false },
  { name: "a script", headers: { ...SHOWN, "sec-fetch-mode": "cors" }, isPage: false },
  { name: "an image", headers: { ...SHOWN, "sec-fetch-mode": "no-cors" }, isPage: false },
  { name: "an older script", headers: { ...SHOWN, "x-requested-with": "x" }, isPage: false },
  { name: "who wants JSON", headers: { ...SHOWN, accept: "application/json" }, isPage: false },
  {
    name: "who takes both",
    headers: { ...SHOWN, accept: "application/json, text/html" },
    isPage: true,
  },
])("$name: $isPage", ({ headers, isPage }) => {
  expect(wantsErrorPage(headers)).toBe(isPage);
});

test("what a page says is only text", () => {
  const message = `<script>alert("1" & '2')</script>`;
  const page = toErrorPage({ code: 502, message });
  expect(page).toContain("&lt;script&gt;alert(&quot;1&quot; &amp; &#39;2&#39;)&lt;/script&gt;");
  expect(page).not.toContain("<script");
});

test.for([
  { message: MESSAGES.sandboxUnreachable, says: ["Sandbox Not Found", "iabc"] },
  { message: MESSAGES.portClosed, says: ["no service running on port 8080", "iabc"], port: 8080 },
  { message: MESSAGES.trafficTokenMissing, says: ["Missing Traffic Access Token", "iabc"] },
  { message: MESSAGES.trafficTokenWrong, says: ["Invalid Traffic Access Token", "iabc"] },
])("a page says $says", ({ message, says, port }) => {
  const page = toErrorPage({
    code: 502,
    sandboxId: "iabc",
    message,
    ...(port !== undefined && { port }),
  });
  for (const text of says) expect(page).toContain(text);
  expect(page).toMatch(/^<html[^]*<\/html>$/);
});
