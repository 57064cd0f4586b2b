"""A TLS API server that replays a recorded streaming list (tests/fixtures/kube-api) and keeps the watch open."""

import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

RECORDED = Path(__file__).parents[2] / "tests/fixtures/kube-api"
PROTOBUF = "application/vnd.kubernetes.protobuf"


class KubeApi(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, token, certificate, key):
        super().__init__(("127.0.0.1", 6443), Handler)
        self.token = token
        self.seen = []
        self.ended = threading.Event()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.socket = context.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def end(self):
        self.ended.set()
        self.shutdown()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        url = urlsplit(self.path)
        query = parse_qs(url.query)
        self.server.seen.append((url.path, "sendInitialEvents" in query))
        if self.headers["Authorization"] != f"Bearer {self.server.token}":
            return self.answer(401, PROTOBUF, "statuses/401.pb")
        self.answer(200, f"{PROTOBUF};stream=watch", "watch-streaming-list.pb")
        self.server.ended.wait()

    def answer(self, status, kind, file):
        body = (RECORDED / file).read_bytes()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        # Omits the final empty chunk, so that the response ends with the connection.
        self.wfile.write(b"%x\r\n%s\r\n" % (len(body), body))
        self.close_connection = True

    def log_message(self, *_):
        pass
