/** The cost curve as a picture: four small plots over the number of sandboxes. */

import type { Point } from "./density.ts";

const WIDTH = 360;
const HEIGHT = 200;
const MARGIN = { left: 56, right: 12, top: 32, bottom: 36 } as const;

interface Plot {
  readonly title: string;
  readonly unit: string;
  readonly valueOf: (point: Point) => number;
}

const PLOTS: readonly Plot[] = [
  { title: "create, median", unit: "ms", valueOf: ({ createMs }) => createMs },
  { title: "exec of true, median", unit: "ms", valueOf: ({ execMs }) => execMs },
  { title: "list, p99", unit: "ms", valueOf: ({ listP99Ms }) => listP99Ms },
  { title: "memory of each", unit: "MiB", valueOf: ({ memoryMib }) => memoryMib },
];

/** An SVG document. */
export function drawCurve(curve: readonly Point[]): string {
  const plots = PLOTS.map((plot, index) => {
    const [x, y] = [(index % 2) * WIDTH, Math.floor(index / 2) * HEIGHT];
    return `<g transform="translate(${x} ${y})">${drawPlot(plot, curve)}</g>`;
  });
  const [width, height] = [2 * WIDTH, 2 * HEIGHT];
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="11">`,
    `<rect width="${width}" height="${height}" fill="#fff"/>`,
    ...plots,
    "</svg>",
    "",
  ].join("\n");
}

function drawPlot({ title, unit, valueOf }: Plot, curve: readonly Point[]): string {
  const most = Math.max(...curve.map(({ sandboxes }) => sandboxes));
  const top = niceAbove(Math.max(...curve.map(valueOf)));
  const inner = {
    width: WIDTH - MARGIN.left - MARGIN.right,
    height: HEIGHT - MARGIN.top - MARGIN.bottom,
  };
  const toX = (count: number) => MARGIN.left + (count / most) * inner.width;
  const toY = (value: number) => MARGIN.top + inner.height * (1 - value / top);
  const points = curve.map((point) => [toX(point.sandboxes), toY(valueOf(point))] as const);
  const line = points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ");
  const dots = points.map(
    ([x, y]) => `<circle cx="${x.toFixed(1)}" cy="${y.toFixed(1)}" r="3" fill="#1f6feb"/>`,
  );
  const levels = [0, top / 2, top].map((value) => {
    const y = toY(value).toFixed(1);
    const label = `<text x="${MARGIN.left - 6}" y="${y}" dy="4" text-anchor="end">${value}</text>`;
    return `<line x1="${MARGIN.left}" x2="${WIDTH - MARGIN.right}" y1="${y}" y2="${y}" stroke="#ddd"/>${label}`;
  });
  const counts = curve
    .filter(({ sandboxes }) => sandboxes !== 10)
    .map(({ sandboxes }) => {
      const x = toX(sandboxes).toFixed(1);
      return `<text x="${x}" y="${HEIGHT - MARGIN.bottom + 16}" text-anchor="middle">${sandboxes}</text>`;
    });
  return [
    `<text x="${MARGIN.left}" y="18" font-weight="bold">${title}, ${unit}</text>`,
    ...levels,
    ...counts,
    `<polyline points="${line}" fill="none" stroke="#1f6feb" stroke-width="2"/>`,
    ...dots,
  ].join("");
}

/** The next of 1, 2, 5, 10, … that is not below the value. */
function niceAbove(value: number): number {
  const scale = 10 ** Math.floor(Math.log10(Math.max(value, 0.001)));
  const step = [1, 2, 4, 6, 8, 10].find((factor) => factor * scale >= value) ?? 10;
  return Number((step * scale).toPrecision(3));
}
