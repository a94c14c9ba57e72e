/** Snapshots as a list shows them. */

export interface SnapshotTable {
  /** Newest first, by their newest builds that have a tag. */
  list(query: SnapshotListQuery): ListedSnapshot[];
}

interface SnapshotListQuery {
  readonly team: string;
  /** Of this sandbox; undefined for those of all. */
  readonly sandboxId: string | undefined;
  readonly limit: number;
  /** The last one before them: the time of its build, and its template. */
  readonly after: { readonly atMs: number; readonly id: string } | undefined;
}

export interface ListedSnapshot {
  readonly templateId: string;
  readonly name: string | null;
  /** The first tag of its newest build that has one. */
  readonly tag: string;
  /** Of that build. */
  readonly createdAtMs: number;
}
