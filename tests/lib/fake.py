"""A server that stands in for gateways, to test tests: it stores and finds, until it is told to do worse.

Must not know: who asks.
"""

import socket
import struct
import threading

WELL, SILENT, RESETTING = "well", "silent", "resetting"


class Server:
    """`mood`: answers, never answers any more, or resets every connection that asks for something. `error`: told instead of all answers.

    It speaks memcached's text protocol."""

    def __init__(self):
        self.mood, self.error, self.store, self.is_over = WELL, None, {}, threading.Event()
        # As memcached's tokens: of what was stored last.
        self.stored_count = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.stop_listening()

    def stop_listening(self):
        """Who connects from now on is refused."""
        # Wakes the thread that accepts, which keeps the port until then.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        try:
            with connection, connection.makefile("rwb") as stream:
                while line := stream.readline():
                    answer = self._answer(line.split(), stream)
                    if self.mood == SILENT:
                        self.is_over.wait()
                        return
                    if self.mood == RESETTING:
                        # Closed without lingering: a reset.
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                        return
                    stream.write(self.error or answer)
                    stream.flush()
        except OSError:
            pass  # who asked has gone

    def _answer(self, words, stream):
        verb, key = words[:2]
        found = self.store.get(key)
        if verb in (b"get", b"gets"):
            token = b" %d" % self.stored_count if verb == b"gets" else b""
            return b"END\r\n" if found is None else b"VALUE %s 0 %d%s\r\n%s\r\nEND\r\n" % (key, len(found), token, found)
        if verb == b"delete":
            return b"DELETED\r\n" if self.store.pop(key, None) is not None else b"NOT_FOUND\r\n"
        if verb == b"touch":
            return b"TOUCHED\r\n" if found is not None else b"NOT_FOUND\r\n"
        if verb == b"incr":
            return b"NOT_FOUND\r\n" if found is None else b"%s\r\n" % self._keep(key, b"%d" % (int(found) + int(words[2])))
        value = stream.read(int(words[4]) + 2)[:-2]
        if verb == b"cas" and (found is None or int(words[5]) != self.stored_count):
            return b"NOT_FOUND\r\n" if found is None else b"EXISTS\r\n"
        if (verb == b"add") == (found is not None) and verb in (b"add", b"replace", b"append"):
            return b"NOT_STORED\r\n"
        self._keep(key, found + value if verb == b"append" else value)
        return b"STORED\r\n"

    def _keep(self, key, value):
        self.stored_count += 1
        self.store[key] = value
        return value


class RedisServer(Server):
    """The same for clients of Redis."""

    def _answer(self, words, stream):
        verb, key, *others = [self._argument(stream) for _ in range(int(words[0][1:]))]
        found = self.store.get(key)
        if verb == b"GET":
            return b"$-1\r\n" if found is None else b"$%d\r\n%s\r\n" % (len(found), found)
        if verb == b"DEL":
            return b":%d\r\n" % (self.store.pop(key, None) is not None)
        if verb == b"INCRBY":
            return b":%s\r\n" % self._keep(key, b"%d" % (int(found or 0) + int(others[0])))
        if verb == b"APPEND":
            return b":%d\r\n" % len(self._keep(key, (found or b"") + others[0]))
        if others[1:] == [b"NX"] and found is not None or others[1:] == [b"XX"] and found is None:
            return b"$-1\r\n"
        self._keep(key, others[0])
        return b"+OK\r\n"

    def _argument(self, stream):
        return stream.read(int(stream.readline()[1:]) + 2)[:-2]
