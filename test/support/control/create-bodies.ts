/** Bodies of creates: with everything that can be asked for, and such that are refused. */

export const BASE = { templateID: "base" };

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
  isolation: "gvisor",
};

export const PROXY = { egressProxy: { address: "a:1" } };
export const PROXIED = { ...RICH, network: PROXY };

/** What is refused by name. */
export const REFUSED = [
  { ...RICH, iam: {} },
  { ...RICH, network: { rules: { "a.test": [] } } },
];
