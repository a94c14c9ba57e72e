/** Rows that hold one record as JSON: written as text, checked by its schema when read. */

import type { z } from "../common/schema.ts";
import type { Row } from "./statement.ts";

/** The record of a row; undefined when there is no row. */
export function toRecord<T>(schema: z.ZodType<T>, row: Row | undefined): T | undefined {
  return row === undefined ? undefined : readRecord(schema, row);
}

/** The records of many rows, in their order. */
export function toRecords<T>(schema: z.ZodType<T>, rows: readonly Row[]): T[] {
  return rows.map((row) => readRecord(schema, row));
}

function readRecord<T>(schema: z.ZodType<T>, row: Row): T {
  return schema.parse(JSON.parse(String(row["record"])));
}
