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
        if verb == b"get":
            found = self.store.get(key)
            return b"END\r\n" if found is None else b"VALUE %s 0 %d\r\n%s\r\nEND\r\n" % (key, len(found), found)
        if verb == b"delete":
            return b"DELETED\r\n" if self.store.pop(key, None) is not None else b"NOT_FOUND\r\n"
        value = stream.read(int(words[4]) + 2)[:-2]
        if verb == b"add" and key in self.store:
            return b"NOT_STORED\r\n"
        self.store[key] = value
        return b"STORED\r\n"


class RedisServer(Server):
    """The same for clients of Redis."""

    def _answer(self, words, stream):
        verb, key, *others = [self._argument(stream) for _ in range(int(words[0][1:]))]
        if verb == b"GET":
            found = self.store.get(key)
            return b"$-1\r\n" if found is None else b"$%d\r\n%s\r\n" % (len(found), found)
        if verb == b"DEL":
            return b":%d\r\n" % (self.store.pop(key, None) is not None)
        if others[1:] == [b"NX"] and key in self.store:
            return b"$-1\r\n"
        self.store[key] = others[0]
        return b"+OK\r\n"

    def _argument(self, stream):
        return stream.read(int(stream.readline()[1:]) + 2)[:-2]
