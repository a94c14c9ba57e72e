/** The directory of programs that stand in for those that an image lacks. Only root writes there. */
export const STAND_INS = "/usr/local/lib/sandbox-mcp";
