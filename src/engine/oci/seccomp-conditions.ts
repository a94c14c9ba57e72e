/** Conditions on the arguments of a system call, as an OCI configuration has them. */

/** What the kernel looks at of an argument that is an int; programs may leave anything in the other half. */
const LOW_HALF = 0xffffffff;
const INT_BITS = 32;

export interface SeccompArgument {
  readonly index: number;
  readonly value: number;
  readonly valueTwo?: number;
  readonly op: "SCMP_CMP_EQ" | "SCMP_CMP_NE" | "SCMP_CMP_MASKED_EQ";
}

/**
 * Conditions of which an int meets at least one unless it is one of `values`, which meet none. Each
 * is about a bit that all values have in common, or about a whole value between them.
 */
export function differing(index: number, values: readonly number[]): SeccompArgument[] {
  const bits = Array.from({ length: INT_BITS }, (_, bit) => 2 ** bit);
  const [first = 0] = values;
  const varying = bits.filter((bit) => values.some((value) => has(value, bit) !== has(first, bit)));
  const fixed = bits.filter((bit) => !varying.includes(bit));
  const base = fixed.reduce((sum, bit) => sum + (has(first, bit) ? bit : 0), 0);
  const between = varying.reduce((sums, bit) => sums.flatMap((sum) => [sum, sum + bit]), [base]);
  return [
    ...fixed.map((bit) => masked(index, bit, has(first, bit) ? 0 : bit)),
    ...between.filter((value) => !values.includes(value)).map((value) => isInt(index, value)),
  ];
}

function has(value: number, bit: number): boolean {
  return Math.floor(value / bit) % 2 === 1;
}

/** Whether the bits of `mask` are those of `value`. */
export function masked(index: number, mask: number, value: number): SeccompArgument {
  return { index, value: mask, valueTwo: value, op: "SCMP_CMP_MASKED_EQ" };
}

/** Whether an argument is this int. */
export function isInt(index: number, value: number): SeccompArgument {
  return masked(index, LOW_HALF, value);
}
