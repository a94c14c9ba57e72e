"""Text of figures in every script: what a figure's own font lacks comes from one that has it."""

import logging
import os

MAX_TOLD = 1_000
# Of the packages fonts-wqy-microhei and fonts-symbola.
FALLBACKS = (
    "/usr/share/fonts/truetype/wqy/wqy-microhei.ttc",
    "/usr/share/fonts/truetype/ancient-scripts/Symbola_hint.ttf",
)


def add_fallbacks():
    """
    Settings of matplotlib would be lost by a style, such as seaborn's, and by a font that a cell names
    and the template does not have. A version of matplotlib that finds fonts in another way runs without.
    """
    there = [path for path in FALLBACKS if os.path.exists(path)]
    try:
        from matplotlib.font_manager import FontManager

        find = FontManager._find_fonts_by_props
    except (ImportError, AttributeError):
        return

    def find_with_fallbacks(*arguments, **options):
        paths = find(*arguments, **options)
        return [*paths, *(path for path in there if path not in paths)]

    FontManager._find_fonts_by_props = find_with_fallbacks
    logging.getLogger("matplotlib.font_manager").addFilter(Once())


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
