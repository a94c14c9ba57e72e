/** Notifications about changed resources to one host, which takes them as slowly as it likes. */

export interface ChangeSender {
  /** The resource changed: it is told at once, or when the host has taken what was sent before. */
  updated(uri: string): void;
  listChanged(): void;
}

export interface ChangeSenderOptions {
  /** Resolves when the host can take more. */
  sendUpdated(uri: string): Promise<void>;
  sendListChanged(): Promise<void>;
  onFault(error: unknown): void;
}

/** More changes than a host can have logs; further ones are dropped while it takes nothing. */
const MAX_WAITING = 512;
/** The key of the list among the addresses of resources. */
const LIST = "";

/** A sender that holds each change once, however often it happens while one is on its way. */
export function createChangeSender(options: ChangeSenderOptions): ChangeSender {
  const waiting = new Set<string>();
  let isSending = false;

  async function send(key: string): Promise<void> {
    try {
      await (key === LIST ? options.sendListChanged() : options.sendUpdated(key));
    } catch (error) {
      options.onFault(error);
    }
  }

  async function sendAll(): Promise<void> {
    isSending = true;
    // Keys that are added meanwhile are met too.
    for (const key of waiting) {
      waiting.delete(key);
      await send(key);
    }
    isSending = false;
  }

  function add(key: string): void {
    if (waiting.size < MAX_WAITING || key === LIST) waiting.add(key);
    if (!isSending) void sendAll();
  }

  return { updated: add, listChanged: () => add(LIST) };
}
