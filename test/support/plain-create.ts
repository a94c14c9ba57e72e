/** The options of a create that asks for nothing. */
export const PLAIN_CREATE = {
  template: "base",
  allowsInternet: undefined,
  network: undefined,
  timeoutSeconds: 600,
  isSecured: true,
  pausesAtTimeout: false,
  resumesOnTraffic: false,
  keepsMemory: true,
  metadata: undefined,
  environment: {},
  volumeMounts: [],
};
