/** Requests that AWS publishes with their signatures, in the suite of tests of Signature Version 4. */

import { expect, test } from "vitest";
import { signRequest, type UnsignedRequest } from "../../../src/images/aws-signature.ts";

const KEY = {
  accessKeyId: "AKIDEXAMPLE",
  secretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
};
const REQUEST: UnsignedRequest = {
  method: "POST",
  host: "example.amazonaws.com",
  headers: {},
  body: "",
  region: "us-east-1",
  service: "service",
  atMs: Date.UTC(2015, 7, 30, 12, 36, 0),
};
const CREDENTIAL =
  "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request";

test.for([
  {
    name: "get-vanilla",
    request: { method: "GET" as const },
    names: "host;x-amz-date",
    signature: "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
  },
  {
    name: "post-vanilla",
    request: {},
    names: "host;x-amz-date",
    signature: "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
  },
  {
    name: "post-header-key-sort",
    request: { headers: { "My-Header1": "value1" } },
    names: "host;my-header1;x-amz-date",
    signature: "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c",
  },
  {
    name: "post-header-value-case",
    request: { headers: { "My-Header1": "VALUE1" } },
    names: "host;my-header1;x-amz-date",
    signature: "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d",
  },
  {
    name: "get-header-value-trim",
    request: {
      method: "GET" as const,
      headers: { "My-Header1": " value1", "My-Header2": ' "a   b   c"' },
    },
    names: "host;my-header1;my-header2;x-amz-date",
    signature: "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
  },
  {
    name: "post-x-www-form-urlencoded",
    request: {
      headers: { "Content-Type": "application/x-www-form-urlencoded" },
      body: "Param1=value1",
    },
    names: "content-type;host;x-amz-date",
    signature: "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
  },
])("$name of the suite", ({ request, names, signature }) => {
  const { authorization, ...headers } = signRequest({ ...REQUEST, ...request }, KEY);
  expect(authorization).toBe(`${CREDENTIAL}, SignedHeaders=${names}, Signature=${signature}`);
  expect(headers).toMatchObject({ "x-amz-date": "20150830T123600Z" });
});
