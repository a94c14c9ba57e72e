/** A program of Python whose state is in its memory alone. */

export const COUNTER_PORT = 8123;

/** Runs `count` beside a server that answers with `n` and `word`. */
export const ANSWER = `class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
        self.wfile.write(f"{n} {word}".encode())
    def log_message(self, *a): pass
threading.Thread(target=count, daemon=True).start()
http.server.HTTPServer(("127.0.0.1", ${COUNTER_PORT}), Answer).serve_forever()
`;

/** Counts, and answers on port 8123 what it counted and a word that it chose at its start. */
export const COUNTER = `
import http.server, os, threading, time
n, word = 0, os.urandom(8).hex()
def count():
    global n
    while True:
        n += 1
        time.sleep(0.01)
${ANSWER}`;
