/** What is told of large charts and data frames: not more than a kernel has the memory and its caller the time for. */

import { execFile } from "node:child_process";
import { resolve } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const run = promisify(execFile);
const PROGRAMS = resolve(import.meta.dirname, "../../../src/interpreter");

/** Figures with the parts of matplotlib and numpy that are asked for, which this machine may lack. */
const FIGURES = `
import json, sys, types
sys.path.insert(0, ${JSON.stringify(PROGRAMS)})

def module(name, **members):
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(members)

class None_: pass
class PathCollection: pass
module("numpy", ma=types.SimpleNamespace(is_masked=lambda value: False))
module("matplotlib")
module("matplotlib.category", StrCategoryConverter=None_)
module("matplotlib.dates", DateConverter=None_, _SwitchableDateConverter=None_)
module("matplotlib.collections", PathCollection=PathCollection)
module("matplotlib.container", BarContainer=None_)
module("matplotlib.patches", Wedge=None_, PathPatch=None_)

count = {"values": 0, "looks": 0}

class Values:
    """So many values, which are counted as they are read."""
    def __init__(self, size): self.size = size
    def __len__(self): return self.size
    def __getitem__(self, part):
        if isinstance(part, tuple): return self
        return Values(min(self.size, part.stop))
    def __iter__(self):
        for value in range(self.size):
            count["values"] += 1
            yield value

class Line:
    def __init__(self, size): self.values = Values(size)
    def get_xdata(self, orig=True): return self.values
    def get_ydata(self, orig=True): return self.values
    def get_label(self): return "_"

class Points(PathCollection):
    def __init__(self, size): self.values = Values(size)
    def get_offsets(self): return self.values
    def get_label(self): return "_"

class Axis:
    def get_converter(self): count["looks"] += 1
    def get_scale(self): return "linear"
    def get_ticklocs(self): return []
    def get_view_interval(self): return (0, 1)
    def get_major_formatter(self): return types.SimpleNamespace(format_ticks=lambda ticks: [])

class Axes:
    def __init__(self, lines=(), collections=()):
        self.lines, self.collections = list(lines), list(collections)
        self.containers, self.patches, self.texts = [], [], []
        self.xaxis, self.yaxis = Axis(), Axis()
    def get_lines(self): return self.lines
    def get_visible(self): return True
    def get_title(self): return ""
    def get_xlabel(self): return ""
    get_ylabel = get_xlabel

def told(*all_axes):
    import charts
    # A hundredth, and the test is as much faster.
    charts.MAX_POINTS, charts.MAX_FIGURE_POINTS = 500, 2_000
    figure = types.SimpleNamespace(axes=all_axes)
    for axes in all_axes: axes.figure = figure
    chart = charts.describe_figure(figure)
    parts = chart["elements"] if chart["type"] == "superchart" else [chart]
    sizes = [len(element["points"]) for one in parts for element in one["elements"]]
    return {"elements": len(sizes), "points": sum(sizes), "read": count["values"], "looks": count["looks"]}
`;

async function told(figure: string): Promise<unknown> {
  const program = `${FIGURES}\nprint(json.dumps(told(${figure})))`;
  const { stdout } = await run("python3", ["-B", "-c", program], { timeout: 30_000 });
  return JSON.parse(stdout);
}

test.each([
  ["a line", "Axes([Line(2_000)])", { elements: 1, points: 500 }],
  ["many lines", "Axes(Line(500) for _ in range(40))", { elements: 40, points: 2_000 }],
  ["points", "Axes(collections=[Points(2_000)])", { elements: 1, points: 500 }],
  ["several charts", "*(Axes([Line(500)]) for _ in range(8))", { elements: 8, points: 2_000 }],
  [
    "more lines than are told",
    "Axes(Line(3) for _ in range(2_000))",
    { elements: 1_000, points: 1_000 },
  ],
])("of %s no more values are read than are told", async (_name, figure, { elements, points }) => {
  // Two values for each point, and at most one that ends the shorter list.
  const read = expect.toSatisfy((count: number) => count <= 2 * points + elements);
  const looks = expect.toSatisfy((count: number) => count <= 4 * elements + 8);
  expect(await told(figure)).toEqual({ elements, points, read, looks });
});

test.each([
  ["more text than is told", 29, null],
  ["as much text as is told", 30, { column: ["1234567890", "1234567890", "1234567890"] }],
])("of a data frame with %s", async (_name, characters, expected) => {
  const program = `${FIGURES}
import forms
class Frame:
    size, columns = 3, ["column"]
    class iloc:
        def __class_getitem__(cls, part): return cls
        def tolist(): return ["1234567890"] * 3
forms.MAX_DATA_CHARACTERS = ${characters}
print(json.dumps(forms.frame_values(Frame)))`;
  const { stdout } = await run("python3", ["-B", "-c", program], { timeout: 30_000 });
  expect(JSON.parse(stdout)).toEqual(expected);
});
