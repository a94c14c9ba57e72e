/** Documents of an image, which a registry may fill with anything. */

import { expect, test } from "vitest";
import { parseImageConfig } from "../../../src/images/image-config.ts";
import { ownArchitecture } from "../../../src/images/layout.ts";

function document(config: string): Buffer {
  const facts = `"architecture":"${ownArchitecture()}","os":"linux","rootfs":{"diff_ids":[]}`;
  return Buffer.from(`{${facts},"config":${config}}`);
}

const ports = (count: number) =>
  Array.from({ length: count }, (_, index) => `"${index}/tcp":{}`).join(",");

test("a configuration of many values is refused before they are made", () => {
  const { config } = parseImageConfig(document(`{"ExposedPorts":{${ports(1_000)}}}`));
  expect(config.exposedPorts).toHaveLength(999);
  expect(() => parseImageConfig(document(`{"ExposedPorts":{${ports(40_000)}}}`))).toThrow(
    "the image is not valid: its configuration: JSON has more than 65536 values",
  );
});

test("a configuration of many levels is refused", () => {
  const deep = `${"[".repeat(1_000)}${"]".repeat(1_000)}`;
  expect(() => parseImageConfig(document(`{"Labels":{"a":${deep}}}`))).toThrow(
    "the image is not valid: its configuration: JSON has more than 64 levels",
  );
});

test("a configuration whose labels are no UTF-8 counts all the same", () => {
  const latin = Buffer.from(document('{"Labels":{"a":"caf?"}}').toString("latin1"), "latin1");
  latin[latin.indexOf("?")] = 0xe9;
  expect(parseImageConfig(latin).config.labels).toEqual([{ name: "a", value: "caf\ufffd" }]);
});
