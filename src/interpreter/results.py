"""The lines of a reply, made from the messages of a kernel; each field is bounded."""

import time

# A stream is cut into lines of at most this much.
MAX_TEXT_CHARACTERS = 262_144
# Pictures of 10 MB are 14 MB of base64. What is longer is left out and named.
MAX_FIELD_CHARACTERS = 32 * 1024 * 1024
MAX_ERROR_CHARACTERS = 262_144
MAX_EXTRA_FIELDS = 16

FIELDS = {
    "text/plain": "text",
    "text/html": "html",
    "text/markdown": "markdown",
    "image/svg+xml": "svg",
    "image/png": "png",
    "image/jpeg": "jpeg",
    "application/pdf": "pdf",
    "text/latex": "latex",
    "application/json": "json",
    "application/javascript": "javascript",
    "application/vnd.e2b.data.v1+json": "data",
    "application/vnd.e2b.chart.v1+json": "chart",
}
BASE64_FIELDS = ("png", "jpeg", "pdf")
OBJECT_FIELDS = ("json", "data", "chart")


def stream_lines(name, text):
    """Output of a cell; what is not the error stream counts as standard output."""
    kind = "stderr" if name == "stderr" else "stdout"
    stamp = time.time_ns()
    for start in range(0, len(text), MAX_TEXT_CHARACTERS):
        part = text[start : start + MAX_TEXT_CHARACTERS]
        yield {"type": kind, "text": part, "timestamp": stamp}


def error_line(name, value, traceback):
    texts = {"name": name, "value": value, "traceback": traceback}
    return {"type": "error", **{key: cut(str(text)) for key, text in texts.items()}}


def cut(text):
    """The beginning and the end of a text that is too long."""
    if len(text) <= MAX_ERROR_CHARACTERS:
        return text
    half = MAX_ERROR_CHARACTERS // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters ...]\n{text[-half:]}"


def result_line(bundle, is_main):
    """A result from its forms by type; an unknown type is an extra."""
    line = {"type": "result", "is_main_result": is_main}
    extra, notes = {}, []
    for mime, value in bundle.items():
        field = FIELDS.get(mime)
        if isinstance(value, list) and field not in OBJECT_FIELDS:
            value = "".join(map(str, value))
        if isinstance(value, str) and len(value) > MAX_FIELD_CHARACTERS:
            value = None
            notes.append(f"[{mime[:64]} is too large to be sent]")
        if value is None:
            continue
        if field is None:
            if len(extra) < MAX_EXTRA_FIELDS:
                extra[mime[:256]] = value
        elif field in BASE64_FIELDS:
            line[field] = str(value).replace("\n", "")
        else:
            line[field] = value
    if isinstance(line.get("text"), str):
        notes.insert(0, unquoted(line["text"]))
    if notes:
        line["text"] = "\n".join(notes)
    if extra:
        line["extra"] = extra
    return line


def unquoted(text):
    """A text without the quotes of its plain form."""
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if is_quoted else text
