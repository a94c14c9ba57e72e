/** The team of whoever names none, and of records that were written before there were teams. */

export const DEFAULT_TEAM = "local";
