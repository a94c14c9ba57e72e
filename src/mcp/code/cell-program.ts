/**
 * The program that run_code runs in a sandbox: a client of the interpreter there. As a process it
 * has what every process has: output by cursor, progress, a log, and an end by signal, by which the
 * interpreter interrupts the cell. It needs only Python's own library, so it serves every service.
 * Its start is most of a short cell's time: it imports little, and speaks HTTP by itself.
 */

/** The exit codes of the program. */
export const CELL_EXIT = { done: 0, failed: 1, noInterpreter: 91, refused: 92, late: 93 } as const;

/** Without packages, which would slow down its start: nothing of the caller's is imported. */
export const CELL_FLAGS = ["-I", "-S", "-u", "-X", "utf8"] as const;

/** The reply of a cell for the tool, in the folder that the request names. */
export const CELL_RECORD = "record.json";

/**
 * The request is one JSON object on stdin: code, language, context (a name, or null), folder and
 * timeout (seconds; 0 for none).
 */
export const CELL_PROGRAM = String.raw`
import json, os, re, signal, socket, sys, time
ask = json.load(sys.stdin)
# A cell may write half a character, which is no UTF-8.
sys.stdout.reconfigure(errors="backslashreplace")
folder, root = ask["folder"], os.path.dirname(ask["folder"])
os.makedirs(folder, 0o700)
record = {"pictures": [], "files": 0, "error": None, "count": None, "note": None}
PORT = 49999
PARTS = {"png": "png", "jpeg": "jpg", "gif": "gif", "webp": "webp", "svg": "svg", "pdf": "pdf", "html": "html"}
PICTURES = ("png", "jpeg", "gif", "webp")
# What is longer becomes a file.
MAX_HTML_CHARACTERS = 4000
MAX_FILES = 64

def leave(code, note=None):
    record["note"] = note
    if note:
        print(note, file=sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    part = os.path.join(folder, "record.part")
    try:
        with open(part, "w") as file:
            json.dump(record, file)
        os.rename(part, os.path.join(folder, "${CELL_RECORD}"))
    except OSError as error:
        # The exit code says how the cell ended, on a full disk too.
        print(f"[record: not kept: {error}]", file=sys.stderr)
    os._exit(code)

def late(*_):
    leave(${CELL_EXIT.late}, "the cell was interrupted at timeout_seconds")

class Reply:
    def __init__(self, file):
        self.file = file
        self.status = int(file.readline(65536).split()[1])
        self.chunked = False
        for line in iter(lambda: file.readline(65536).strip().lower(), b""):
            if line.startswith(b"transfer-encoding:") and b"chunked" in line:
                self.chunked = True

    def pieces(self):
        "The body as it comes, until its end or that of the connection."
        while True:
            if self.chunked:
                size = int(self.file.readline(65536).split(b";")[0] or b"0", 16)
                data = self.file.read(size)
                self.file.readline(65536)
            else:
                data = self.file.read1(65536)
            if not data:
                return
            yield data

    def lines(self):
        parts = []
        for data in self.pieces():
            *whole, rest = data.split(b"\n")
            for line in whole:
                yield b"".join([*parts, line])
                parts = []
            parts.append(rest)

    def text(self):
        return b"".join(self.pieces()).decode("utf8", "replace")

def call(method, path, body=None):
    data = b"" if body is None else json.dumps(body).encode("ascii")
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{PORT}\r\nConnection: close\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    try:
        connection = socket.create_connection(("127.0.0.1", PORT))
        connection.sendall(head.encode("ascii") + data)
        return Reply(connection.makefile("rb"))
    except ConnectionRefusedError:
        leave(${CELL_EXIT.noInterpreter}, "no code interpreter runs in this sandbox")
    except (OSError, ValueError, IndexError) as error:
        leave(${CELL_EXIT.refused}, f"the code interpreter does not answer: {error}")

def names(file):
    try:
        return json.loads(os.pread(file, os.fstat(file).st_size, 0))
    except ValueError:
        return {}

def named(name, language):
    "The id of the context of a name; made where there is none. The start of a kernel holds no other name up."
    import binascii, fcntl
    key = language + " " + name
    file = os.open(os.path.join(root, "contexts.json"), os.O_RDWR | os.O_CREAT, 0o600)
    # A byte for each name, and the first one for the content; none of them has to be there.
    fcntl.lockf(file, fcntl.LOCK_EX, 1, 1 + binascii.crc32(key.encode()))
    fcntl.lockf(file, fcntl.LOCK_EX, 1)
    known = names(file).get(key)
    fcntl.lockf(file, fcntl.LOCK_UN, 1)
    reply = call("GET", "/contexts")
    if known not in [context.get("id") for context in json.loads(reply.text())]:
        reply = call("POST", "/contexts", {"language": language})
        text = reply.text()
        if reply.status != 200:
            leave(${CELL_EXIT.refused}, text[:2000])
        known = json.loads(text)["id"]
        fcntl.lockf(file, fcntl.LOCK_EX, 1)
        data = json.dumps({**names(file), key: known}).encode()
        os.ftruncate(file, os.pwrite(file, data, 0))
    os.close(file)
    return known

def plain(text):
    return re.sub("\x1b\\[[0-9;]*[A-Za-z]", "", text)

def own_frames(text):
    "A traceback without the frames of libraries."
    parts = re.split(r"(?m)^(?=(?:Cell |Input |File |    at ))", plain(text))
    shown, left = [parts[0]], 0
    for part in parts[1:]:
        if re.match(r"(?:File |    at ).*(?:/usr/|site-packages|dist-packages|<frozen |node:)", part):
            left += 1
            tail = part.rsplit("\n\n", 1)[1:]
            shown += tail
        else:
            shown.append(part)
    if left:
        shown.insert(len(shown) - 1, f"[{left} frames of libraries left out]\n")
    return "".join(shown)

def keep(form, value):
    "The path of a new file; None of one too many, and where it cannot be written, as on a full disk."
    if record["files"] == MAX_FILES:
        return None
    path = os.path.join(folder, f"{record['files'] + 1}.{PARTS.get(form, 'json')}")
    record["files"] += 1
    if not isinstance(value, str):
        print(f"[{form}: not kept: it is no text]")
        return None
    import binascii
    is_text = form not in (*PICTURES, "pdf")
    try:
        with open(path, "wb") as file:
            file.write(value.encode("utf8", "replace") if is_text else binascii.a2b_base64(value))
    except (OSError, ValueError) as error:
        print(f"[{form}: not kept: {error}]")
        return None
    print(f"[{form}: {path}]")
    return path

def text_forms(line):
    "Those to read a result by; the mere name of an object is none where another form has its content."
    text = line.get("text")
    is_name = isinstance(text, str) and re.fullmatch(r"<[\w.]+(?: object)?(?: at 0x[0-9a-f]+)?>", text)
    has_more = any(line.get(form) for form in ("markdown", "latex", "json", "html"))
    return ("markdown", "latex") if is_name and has_more else ("text", "markdown", "latex")

def show(line):
    "A result as text; what is no text becomes a file."
    extra = line.get("extra")
    extra = extra if isinstance(extra, dict) else {}
    line = {**line, "gif": extra.get("image/gif"), "webp": extra.get("image/webp")}
    pictures = [form for form in PICTURES if line.get(form)]
    for form in pictures:
        path = keep(form, line[form])
        if path:
            record["pictures"].append(path)
    for form in ("pdf", "svg") if not pictures else ():
        if line.get(form):
            keep(form, line[form])
    text = next((line[form] for form in text_forms(line) if line.get(form)), None)
    if text is not None and not (pictures and not line.get("is_main_result")):
        print(text if isinstance(text, str) else json.dumps(text))
    elif text is None and line.get("json") is not None:
        print(json.dumps(line["json"]))
    elif text is None and line.get("html") and not pictures:
        html = line["html"]
        if isinstance(html, str) and len(html) <= MAX_HTML_CHARACTERS:
            print(html)
        else:
            keep("html", html)
    elif text is None and not any(line.get(form) for form in PARTS):
        # Of types that only a program shows, such as an interactive chart.
        for mime, value in extra.items():
            keep(mime, value if isinstance(value, str) else json.dumps(value))

def age(entry):
    "0 for what another cell has removed meanwhile."
    try:
        return entry.stat(follow_symlinks=False).st_mtime
    except OSError:
        return 0

for old in sorted(os.scandir(root), key=age)[:-32]:
    # One without a record may be that of a cell that still runs; two days old it is of one that was killed.
    is_over = os.path.exists(os.path.join(old.path, "${CELL_RECORD}")) or age(old) < time.time() - 172800
    if is_over and old.is_dir(follow_symlinks=False):
        import shutil
        shutil.rmtree(old.path, ignore_errors=True)
if ask["timeout"]:
    signal.signal(signal.SIGALRM, late)
    signal.alarm(ask["timeout"])
body = {"code": ask["code"]}
if ask["context"] is None:
    body["language"] = ask["language"]
else:
    body["context_id"] = named(ask["context"], ask["language"])
reply = call("POST", "/execute", body)
if reply.status != 200:
    leave(${CELL_EXIT.refused}, reply.text()[:2000])
has_ended = False

def take(line):
    "Takes one part of the reply; returns whether it is the last one."
    kind = line.get("type")
    if kind in ("stdout", "stderr"):
        stream = sys.stdout if kind == "stdout" else sys.stderr
        stream.write(line["text"])
        stream.flush()
    elif kind == "result":
        show(line)
        sys.stdout.flush()
    elif kind == "error":
        name, value, trace = (str(line.get(part) or "") for part in ("name", "value", "traceback"))
        record["error"] = {"name": name[:200], "value": value[:2000]}
        trace = own_frames(trace).strip() or f"{name}: {value}"
        print(trace[:2000] + "\n[...]\n" + trace[-4000:] if len(trace) > 6100 else trace, file=sys.stderr)
    elif kind == "number_of_executions" and isinstance(line["execution_count"], int):
        record["count"] = line["execution_count"]
    return kind == "end_of_execution"

try:
    for data in reply.lines():
        try:
            has_ended = take(json.loads(data))
        except (ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
            # A cell gives a result any form.
            print(f"[a part of the reply is not shown: {type(error).__name__}]", file=sys.stderr)
        if has_ended:
            break
except (OSError, ValueError):
    pass
if not has_ended:
    leave(${CELL_EXIT.refused}, "the code interpreter ended during the cell; it starts again, without its variables")
leave(${CELL_EXIT.failed} if record["error"] else ${CELL_EXIT.done})
`;
