/** What a record of a sandbox in a Pod holds beside its names and its state. */
export const RECORD_FACTS = {
  isSecured: true,
  isPrivate: false,
  pausesAtTimeout: false,
  resumesOnTraffic: false,
  startedAtMs: 1,
  endAtMs: 2,
  limits: { memoryMb: 512, cpus: 1, diskMb: 1_024, pids: 100 },
  allowsInternet: null,
  network: null,
  metadata: null,
  sealedEnvironment: null,
};
