/** Entries as the first Python clients know them: they fail on any field that came later. */

import { create, isMessage, type Message } from "@bufbuild/protobuf";
import type { Interceptor } from "@connectrpc/connect";
import {
  EntryInfoSchema,
  Filesystem,
  GetWatcherEventsResponseSchema,
  ListDirResponseSchema,
  MakeDirResponseSchema,
  MoveResponseSchema,
  StatResponseSchema,
  WatchDirResponseSchema,
  type EntryInfo,
} from "../../gen/filesystem/filesystem_pb.ts";

/** All that those clients say of themselves; later ones give a name and a version. */
const OLD_AGENT = "connect-python";
const MARK_HEADER = "x-e2b-legacy-sdk";
const ONE_ENTRY = [StatResponseSchema, MakeDirResponseSchema, MoveResponseSchema] as const;

/** Cuts the replies of the filesystem service for those clients, and for no others. */
export const cutForOldClients: Interceptor = (next) => async (request) => {
  const response = await next(request);
  const isOld = request.header.get("user-agent") === OLD_AGENT;
  if (!isOld || request.service.typeName !== Filesystem.typeName) return response;
  response.header.set(MARK_HEADER, "true");
  if (response.stream) return { ...response, message: eachCut(response.message) };
  cut(response.message);
  return response;
};

async function* eachCut<T extends Message>(messages: AsyncIterable<T>): AsyncGenerator<T> {
  for await (const message of messages) {
    cut(message);
    yield message;
  }
}

function cut(message: Message): void {
  for (const schema of ONE_ENTRY) {
    if (!isMessage(message, schema) || message.entry === undefined) continue;
    message.entry = shortened(message.entry);
  }
  if (isMessage(message, ListDirResponseSchema)) {
    message.entries = message.entries.map((entry) => shortened(entry));
  } else if (isMessage(message, GetWatcherEventsResponseSchema)) {
    for (const event of message.events) delete event.entry;
  } else if (isMessage(message, WatchDirResponseSchema)) {
    if (message.event.case === "filesystem") delete message.event.value.entry;
  }
}

function shortened({ name, type, path }: EntryInfo): EntryInfo {
  return create(EntryInfoSchema, { name, type, path });
}
