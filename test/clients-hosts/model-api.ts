/** What a scripted model is told, and what it answers, whichever wire its host speaks. */

/** What a host shows its model of one call. */
export interface ShownResult {
  readonly text: string;
  /** Media types. */
  readonly images: readonly string[];
}

export interface ScriptedCall {
  readonly tool: string;
  readonly input: object;
}

/** The next call, told by what all calls before it returned; undefined at the end of the script. */
export type Script = (shown: readonly ShownResult[]) => ScriptedCall | undefined;

/** One wire of a model: reads results from a request, and writes a reply as server-sent events. */
export interface ModelApi {
  readonly path: string;
  /** The results of all calls so far; undefined for a request without our tools. */
  readResults(request: unknown): readonly ShownResult[] | undefined;
  /** The events of a reply: a call under this id, or a text. */
  reply(request: unknown, answer: { id: string; call: ScriptedCall | undefined }): readonly Event[];
}

export interface Event {
  readonly type: string;
  readonly [field: string]: unknown;
}
