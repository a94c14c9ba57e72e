/** Runs before a program: every name resolves to this machine, as a test's own domain must. */

import dns from "node:dns";

const LOOPBACK = { address: "127.0.0.1", family: 4 };

type Done = (error: null, address: unknown, family?: number) => void;

Object.assign(dns, {
  lookup(_name: string, options: { readonly all?: boolean }, done: Done) {
    if (options.all === true) done(null, [LOOPBACK]);
    else done(null, LOOPBACK.address, LOOPBACK.family);
  },
});
