/** Values for the calls that show all that is documented of the control API. */

export const MISSING = "i00000000000000000000";

/** A create that asks for everything. */
export const RICH = {
  templateID: "base",
  timeout: 600,
  autoPause: true,
  autoPauseMemory: true,
  autoResume: { enabled: true },
  secure: true,
  allow_internet_access: true,
  network: {
    allowPublicTraffic: false,
    allowOut: ["1.1.1.1"],
    denyOut: ["0.0.0.0/0"],
    dnsServers: ["192.0.2.53"],
    maskRequestHost: "a.test",
    httpsPorts: [8443],
  },
  metadata: { purpose: "all" },
  envVars: { A: "1" },
  mcp: { server: {} },
  volumeMounts: [{ name: "shared", path: "/data" }],
};

/** Parameters that name nothing, and such that can name nothing. */
export const PARAMETERS: Readonly<
  Record<string, { readonly missing: string; readonly faulty: string }>
> = {
  sandboxID: { missing: MISSING, faulty: "No!" },
  templateID: { missing: "none", faulty: "a%20b" },
  alias: { missing: "none", faulty: "a%20b" },
  buildID: { missing: "none", faulty: "no" },
  hash: { missing: "00ff", faulty: "XY" },
  volumeID: { missing: "00000000-0000-4000-8000-000000000000", faulty: "nope" },
};

/** Bodies that pass every schema, for calls that fail for another reason. */
export const BODY = { timeout: 9, public: true, name: "none", fromTemplate: "base" };
