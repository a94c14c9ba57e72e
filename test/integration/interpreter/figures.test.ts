/** Which figures `plt.show()` shows with the backend `agg`; this machine may lack matplotlib. */

import { execFile } from "node:child_process";
import { resolve } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const run = promisify(execFile);
const PROGRAMS = resolve(import.meta.dirname, "../../../src/interpreter");

/** As in matplotlib, what is drawn is not stale, and what is saved is; the size of both differs. */
const FIGURES = `
import json, sys, types
sys.path.insert(0, ${JSON.stringify(PROGRAMS)})

def module(name, **members):
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(members)

class Figure:
    def __init__(self, text):
        self.canvas = self.figure = self
        self.change(text)
    def change(self, text): self.text, self.stale = text, True
    def draw(self): self.pixels, self.stale = self.text.encode(), False
    def buffer_rgba(self): return memoryview(self.pixels)
    def savefig(self): self.pixels, self.stale = b"in another size", True

class Document(Figure):
    buffer_rgba = property()

shown, open_figures = [], []
def display(figure):
    figure.savefig()
    shown.append(figure.text)

managers = lambda: [types.SimpleNamespace(canvas=figure) for figure in open_figures]
module("IPython")
module("IPython.display", display=display)
module("matplotlib", _pylab_helpers=types.SimpleNamespace(Gcf=types.SimpleNamespace(get_all_fig_managers=managers)))
module("matplotlib_inline")
module("matplotlib_inline.backend_inline")
agg = types.SimpleNamespace()
module("matplotlib.backends", backend_agg=agg)
import figures
figures.show_without_window()

def open_figure(text, kind=Figure):
    open_figures.append(kind(text))
    return open_figures[-1]
`;

test.for([
  ["a new one once", ["a"], 'open_figure("a")\nagg.show()\nagg.show(block=False)'],
  ["one that a cell has drawn", ["a"], 'open_figure("a").draw()\nagg.show()\nagg.show()'],
  [
    "one that was saved since no more",
    ["a"],
    'f = open_figure("a")\nagg.show()\nf.savefig()\nagg.show()',
  ],
  [
    "one that was changed and drawn since",
    ["a", "b"],
    'f = open_figure("a")\nagg.show()\nf.change("b")\nf.draw()\nagg.show()\nagg.show()',
  ],
  [
    "two that look the same",
    ["a", "a"],
    'open_figure("a")\nagg.show()\nopen_figure("a")\nagg.show()',
  ],
  ["one that has no pixels", ["a"], 'open_figure("a", Document)\nagg.show()'],
] as const)("plt.show() shows %s", async ([, shown, cell]) => {
  const program = `${FIGURES}\n${cell}\nprint(json.dumps(shown))`;
  const { stdout } = await run("python3", ["-B", "-c", program], { timeout: 30_000 });
  expect(JSON.parse(stdout)).toEqual(shown);
});
