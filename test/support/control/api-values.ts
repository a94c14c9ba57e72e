/** Values for the calls that show all that is documented of the control API. */

export const MISSING = "i00000000000000000000";

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
