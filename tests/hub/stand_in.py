"""A stand-in for the Hugging Face Hub: serves the repositories in a directory, and fails as it is told to.

    python3 stand_in.py DIRECTORY        # DIRECTORY/owner/name/files...

It prints one line of JSON with the addresses of the Hub and of the CDN that large files are redirected to, and serves
until standard input ends. Every repository has one commit, which stands for the branches in BRANCHES; it changes with
the files. The Hub has further addresses, for tests:

    POST /_set       replaces the settings, see Settings
    GET  /_log       what was asked and answered so far; the body bytes that were sent are in "sent"
    GET  /_held      waits until an answer is held back, and says how many have been
    POST /_release   lets go on what is held back, and from then on holds nothing back

Shapes, headers and error codes are those of huggingface.co.
"""

import hashlib
import json
import pathlib
import socket
import struct
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote, unquote, urlsplit

BRANCHES = ("main", "v1.0", "feature/x")
LARGE = (".gguf", ".safetensors")
CHUNK = 16 * 1024


class Settings:
    """What POST /_set may say."""

    def __init__(self, given):
        # Each fault: "kind", see Handler.refuse and Handler.spoilers; "path", a part of server, method and address that it
        # is for; "skip", how many of those get none; "times", how many then do (1).
        self.faults = given.get("faults", [])
        # Further entries of every listing.
        self.extra = given.get("extra", [])
        # Entries on a page of a listing.
        self.page = given.get("page", 1000)
        # "private" or "gated", for who does not show this token.
        self.access = given.get("access")
        self.token = given.get("token")


class State:
    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.settings = Settings({})
        self.log = []
        self.held = 0
        self.released = False
        self.changed = threading.Condition()
        self.cdn = None

    def fault(self, address, kinds):
        """The next fault of these kinds that this address has to show."""
        with self.changed:
            for fault in self.settings.faults:
                if fault["kind"] not in kinds or fault.get("path", "") not in address or fault.get("times", 1) < 1:
                    continue
                if fault.get("skip", 0) > 0:
                    fault["skip"] -= 1
                    continue
                fault["times"] = fault.get("times", 1) - 1
                return fault
        return None

    def hold(self):
        with self.changed:
            self.held += 1
            self.changed.notify_all()
            self.changed.wait_for(lambda: self.released)

    def files(self, repository):
        root = self.directory / repository
        return sorted(path for path in root.rglob("*") if path.is_file()) if root.is_dir() else []

    def commit(self, repository):
        digest = hashlib.sha1()
        for path in self.files(repository):
            digest.update(str(path).encode() + path.read_bytes())
        return digest.hexdigest()

    def entries(self, repository):
        """As the tree's listing has them."""
        for path in self.files(repository):
            content = path.read_bytes()
            name = path.relative_to(self.directory / repository).as_posix()
            entry = {"type": "file", "path": name, "size": len(content)}
            if name.endswith(LARGE):
                sha256 = hashlib.sha256(content).hexdigest()
                pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {len(content)}\n"
                lfs = {"oid": sha256, "size": len(content), "pointerSize": len(pointer)}
                yield entry | {"oid": git_sha1(pointer.encode()), "lfs": lfs}
            else:
                yield entry | {"oid": git_sha1(content)}
        yield from self.settings.extra


def git_sha1(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state: State

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        self.entry = {
            "server": self.server_name,
            "method": self.command,
            "path": self.path,
            "range": self.headers.get("Range"),
            "authorization": self.headers.get("Authorization"),
            "sent": 0,
        }
        if not self.path.startswith("/_"):
            self.state.log.append(self.entry)
        try:
            self.route()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    # What is asked.

    def answer_json(self, value, headers=(), status=200):
        self.answer(json.dumps(value).encode(), [("Content-Type", "application/json"), *headers], status)

    def error(self, status, code, message, headers=()):
        headers = [("X-Error-Message", message), *headers, *([("X-Error-Code", code)] if code else [])]
        self.answer_json({"error": message}, headers, status)

    def answer(self, body, headers=(), status=200):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self):
        """Whether this request got an error that was ordered: {"kind": "status", "status", "code", "retry_after"}."""
        fault = self.state.fault(f"{self.server_name} {self.command} {self.path}", ["status"])
        if fault:
            wait = [("Retry-After", str(fault["retry_after"]))] if "retry_after" in fault else []
            self.error(fault["status"], fault.get("code"), "as it was told to", wait)
        return fault is not None

    # The bytes of a file.

    def answer_file(self, content, headers):
        body, status = content, 200
        wanted = self.headers.get("Range")
        fault = self.state.fault(f"{self.server_name} {self.command} {self.path}", self.spoilers())
        kind = fault["kind"] if fault else None
        if wanted and kind != "ignore_range":
            first, last = wanted.removeprefix("bytes=").split("-")
            first, last = int(first), min(int(last or len(content)), len(content) - 1)
            body, status = content[first : last + 1], 206
            headers = [*headers, ("Content-Range", f"bytes {first}-{last}/{len(content)}")]
        if kind == "corrupt":
            body = bytes(byte ^ 1 for byte in body)
        self.send_response(status)
        for name, value in [*headers, ("Accept-Ranges", "bytes"), ("Content-Length", str(len(body)))]:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.send_body(body, fault if kind in ("truncate", "reset", "hold") else None)

    def spoilers(self):
        """Faults of bodies; "after" says how many bytes are sent before."""
        return ["truncate", "reset", "hold", "corrupt", "ignore_range"] if self.command == "GET" else []

    def send_body(self, body, fault):
        after = fault.get("after", 0) if fault else None
        self.send_chunks(body[:after])
        if not fault:
            return
        if fault["kind"] == "hold":
            self.state.hold()
            self.send_chunks(body[after:])
            return
        if fault["kind"] == "reset":
            # Zero seconds of lingering: closing sends a reset.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True

    def send_chunks(self, body):
        for start in range(0, len(body), CHUNK):
            chunk = body[start : start + CHUNK]
            self.wfile.write(chunk)
            self.entry["sent"] += len(chunk)
        self.wfile.flush()


class Hub(Handler):
    server_name = "hub"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        with self.state.changed:
            if self.path == "/_set":
                self.state.settings = Settings(body)
            else:
                self.state.released = True
                self.state.changed.notify_all()
        self.answer_json({})

    def route(self):
        url = urlsplit(self.path)
        parts = [unquote(part) for part in url.path.split("/")[1:]]
        query = parse_qs(url.query)
        if parts == ["_log"]:
            self.answer_json(self.state.log)
        elif parts == ["_held"]:
            with self.state.changed:
                self.state.changed.wait_for(lambda: self.state.held)
            self.answer_json(self.state.held)
        elif self.refuse():
            pass
        elif parts[:2] == ["api", "models"]:
            self.route_api(f"{parts[2]}/{parts[3]}", parts[4:], query)
        elif len(parts) > 4 and parts[2] == "resolve":
            self.resolve(f"{parts[0]}/{parts[1]}", parts[3], "/".join(parts[4:]))
        else:
            self.error(404, None, "Sorry, we can't find the page you are looking for.")

    def may_see(self, repository):
        """Sends the refusal, if it is one."""
        access, token = self.state.settings.access, self.state.settings.token
        shown = self.headers.get("Authorization") == f"Bearer {token}"
        if not self.state.files(repository) or (access == "private" and not shown):
            self.error(401, "RepoNotFound", "Invalid username or password.")
            return False
        return True

    def route_api(self, repository, rest, query):
        if not self.may_see(repository):
            return
        commit = self.state.commit(repository)
        revision = rest[1] if len(rest) > 1 else "main"
        if revision not in (*BRANCHES, commit):
            self.error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        elif rest[:1] == ["tree"]:
            self.tree(repository, query)
        else:
            self.answer_json(self.info(repository, commit, query))

    def info(self, repository, commit, query):
        info = {"_id": "0123456789abcdef01234567", "id": repository, "modelId": repository, "sha": commit}
        if "expand" in query:
            return {key: info[key] for key in ("_id", "id", *query["expand"])}
        siblings = []
        for entry in self.state.entries(repository):
            sibling = {"rfilename": entry["path"]}
            if query.get("blobs") == ["true"]:
                sibling |= {"size": entry["size"], "blobId": entry["oid"]}
                if lfs := entry.get("lfs"):
                    sibling["lfs"] = {"sha256": lfs["oid"], "size": lfs["size"], "pointerSize": lfs["pointerSize"]}
            siblings.append(sibling)
        return info | {"private": False, "gated": False, "tags": [], "downloads": 0, "siblings": siblings}

    def tree(self, repository, query):
        entries = list(self.state.entries(repository))
        start, page = int(query.get("cursor", ["0"])[0]), self.state.settings.page
        headers = []
        if start + page < len(entries):
            address = f"http://{self.headers['Host']}{urlsplit(self.path).path}"
            headers = [("Link", f'<{address}?recursive=true&cursor={start + page}>; rel="next"')]
        self.answer_json(entries[start : start + page], headers)

    def resolve(self, repository, revision, name):
        if not self.may_see(repository):
            return
        access, token = self.state.settings.access, self.state.settings.token
        if access == "gated" and self.headers.get("Authorization") != f"Bearer {token}":
            self.error(401, "GatedRepo", f"Access to model {repository} is restricted.")
            return
        commit = self.state.commit(repository)
        path = self.state.directory / repository / name
        if revision not in (*BRANCHES, commit):
            self.error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        elif not path.is_file():
            self.error(404, "EntryNotFound", "Entry not found")
        else:
            self.send_file(path, commit)

    def send_file(self, path, commit):
        content = path.read_bytes()
        headers = [("X-Repo-Commit", commit)]
        if path.suffix not in LARGE:
            self.answer_file(content, [*headers, ("ETag", f'"{git_sha1(content)}"')])
            return
        sha256 = hashlib.sha256(content).hexdigest()
        file = quote(path.relative_to(self.state.directory).as_posix())
        headers += [("X-Linked-Size", str(len(content))), ("X-Linked-ETag", f'"{sha256}"'), ("ETag", f'"{sha256}"')]
        self.answer(b"Found", [*headers, ("Location", f"{self.state.cdn}/{file}?signature=valid")], 302)


class Cdn(Handler):
    server_name = "cdn"

    def route(self):
        if self.refuse():
            return
        content = (self.state.directory / unquote(urlsplit(self.path).path[1:])).read_bytes()
        self.answer_file(content, [("ETag", f'"{hashlib.md5(content).hexdigest()}"')])


class Server(ThreadingHTTPServer):
    # Connections that wait to be accepted.
    request_queue_size = 64
    daemon_threads = True

    def handle_error(self, *_):
        """Clients that leave are what the tests are about."""


def serve(handler, state):
    server = Server(("127.0.0.1", 0), type(handler.__name__, (handler,), {"state": state}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def main():
    state = State(sys.argv[1])
    state.cdn = serve(Cdn, state)
    print(json.dumps({"hub": serve(Hub, state), "cdn": state.cdn}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
