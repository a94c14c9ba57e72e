/** Whether builds name a folder of layers, of a disk or of memory; told without reading the records. */

import type { DatabaseSync } from "node:sqlite";
import { prepare } from "./statement.ts";

const BELOW = (path: string): string => `substr(${path}, 1, length(?1) + 1) = ?1 || '/'`;
const IS_NAMED = `
  SELECT 1 FROM builds
  WHERE instr(record, ?1) > 0 AND (
    ${BELOW("record ->> '$.disk.image'")} OR record ->> '$.memory.folder' = ?1
    OR EXISTS (
      SELECT 1 FROM json_each(record, '$.layers') AS layer
      WHERE ${BELOW("layer.value ->> 'root'")} OR layer.value ->> 'root' = ?1
        OR ${BELOW("layer.value ->> 'usr'")} OR layer.value ->> 'usr' = ?1
    )
  ) LIMIT 1`;

/** A record has the name as it is: those of folders have nothing that JSON would escape. */
export function openLayerNames(database: DatabaseSync): (folder: string) => boolean {
  const select = prepare(database, IS_NAMED);
  return (folder) => select.get(folder) !== undefined;
}
