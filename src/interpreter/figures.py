"""
Figures of matplotlib: they are shown whatever backend a cell chooses, and what their font lacks comes
from one that has it. A version of matplotlib that works in another way runs without.
"""

import logging
import os
import weakref
import zlib

MAX_TOLD = 1_000
# Of the packages fonts-wqy-microhei and fonts-symbola.
FALLBACKS = (
    "/usr/share/fonts/truetype/wqy/wqy-microhei.ttc",
    "/usr/share/fonts/truetype/ancient-scripts/Symbola_hint.ttf",
)


def prepare_figures():
    """To be called once matplotlib was imported."""
    try:
        from matplotlib.font_manager import FontManager

        add_fallbacks(FontManager)
        show_without_window()
    except (ImportError, AttributeError):
        # It is not there, or of such a version.
        return
    logging.getLogger("matplotlib.font_manager").addFilter(Once())


def add_fallbacks(manager):
    """
    Settings would be lost by a style, such as seaborn's, and by a font that a cell names and the
    template does not have.
    """
    there = [path for path in FALLBACKS if os.path.exists(path)]
    find = manager._find_fonts_by_props

    def find_with_fallbacks(*arguments, **options):
        paths = find(*arguments, **options)
        return [*paths, *(path for path in there if path not in paths)]

    manager._find_fonts_by_props = find_with_fallbacks


def show_without_window():
    """Code that was written for a terminal chooses the backend `agg`, whose `show` does nothing."""
    # It makes a figure a picture, also for a cell that chooses another backend.
    import matplotlib_inline.backend_inline  # noqa: F401
    from matplotlib import _pylab_helpers
    from matplotlib.backends import backend_agg

    shown = weakref.WeakKeyDictionary()

    def show(*arguments, **options):
        from IPython.display import display

        for manager in _pylab_helpers.Gcf.get_all_fig_managers():
            figure = manager.canvas.figure
            # It stays open, and is shown again once it looks different.
            picture = picture_of(figure)
            if picture is None or picture != shown.get(figure):
                display(figure)
                # The canvas has the picture as it was displayed, in another size.
                figure.stale = True
                shown[figure] = picture_of(figure)

    backend_agg.show = show


def picture_of(figure):
    """None where a figure of another backend has no pixels."""
    if figure.stale:
        figure.canvas.draw()
    pixels = getattr(figure.canvas, "buffer_rgba", None)
    return None if pixels is None else zlib.crc32(pixels())


class Once(logging.Filter):
    """A font that is not there is told for each text of a figure; once is enough."""

    def __init__(self):
        super().__init__()
        self.told = set()

    def filter(self, record):
        text = record.getMessage()
        is_news = text not in self.told
        if len(self.told) < MAX_TOLD:
            self.told.add(text)
        return is_news
