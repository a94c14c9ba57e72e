/** What a service says of a sandbox that runs, for servers that stand for a foreign one. */

export const SANDBOX_DETAIL = {
  templateID: "t0",
  sandboxID: "i1",
  clientID: "6532622b",
  startedAt: "2026-01-01T00:00:00Z",
  endAt: "2026-01-01T00:05:00Z",
  cpuCount: 1,
  memoryMB: 128,
  diskSizeMB: 0,
  state: "running",
  envdVersion: "0.6.13",
};
