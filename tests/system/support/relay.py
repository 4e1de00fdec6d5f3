"""A wire that can be cut: a TCP relay between a peer and a broker, with threads of its own."""

import contextlib
import socket
import threading

from tests.system.support.waits import until_now

PIECE_BYTES = 4096  # of one read: a cut in the middle of a frame is likely


class Relay:
    """Passes on what comes to `url` until somebody cuts it; then nobody gets through until it is healed."""

    def __init__(self, port: int) -> None:
        """`port` of the broker on this machine."""
        self._target = ("127.0.0.1", port)
        self._lock = threading.Lock()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._threads: list[threading.Thread] = []
        self._left_bytes = -1  # to the peers before it cuts itself; -1: it does not
        self.connections = 0  # that got through, ever
        self.swallows_up = False  # what peers send goes nowhere, and nobody is told
        self.is_cut = True
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.heal()

    @property
    def url(self) -> str:
        """Where peers connect instead."""
        return f"tcp://127.0.0.1:{self.port}"

    def heal(self, cut_after: int = -1) -> None:
        """Connections get through; `cut_after`: until so many bytes have been passed on to the peers."""
        with self._lock:
            assert self.is_cut
            self.is_cut = False
            self._left_bytes = cut_after
            self._listener.close()
            self._listener = socket.socket()
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listener.bind(("127.0.0.1", self.port))
            self._listener.listen()
            self._start(self._accept, self._listener)

    def cut(self) -> None:
        """All connections break at once, in both directions, and new ones are refused."""
        with self._lock:
            self._cut()

    def wait_for_cut(self) -> None:
        """Until it has cut itself."""
        until_now(lambda: self.is_cut)

    def close(self) -> None:
        """Cut for ever; its threads have ended when this returns."""
        self.cut()
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _cut(self) -> None:
        if self.is_cut:
            return
        self.is_cut = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # ends the accept that another thread waits in
        self._listener.close()
        for pair in self._pairs:
            for sock in pair:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)  # ends the reading of other threads, what was not read is lost
        self._pairs = []

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return  # it was cut
            try:
                broker = socket.create_connection(self._target)
            except OSError:
                peer.close()  # nobody is there, for now
                continue
            with self._lock:
                if self.is_cut:
                    peer.close()
                    broker.close()
                    return
                self.connections += 1
                self._pairs.append((peer, broker))
                self._start(self._carry, peer, broker, False)
                self._start(self._carry, broker, peer, True)

    def _carry(self, source: socket.socket, target: socket.socket, is_down: bool) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(PIECE_BYTES):
                if is_down and self._left_bytes >= 0:
                    target.sendall(piece[: self._left_bytes])
                    with self._lock:
                        self._left_bytes -= min(self._left_bytes, len(piece))
                        if not self._left_bytes:
                            self._cut()
                elif is_down or not self.swallows_up:
                    target.sendall(piece)
        for sock in (source, target):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        if is_down:
            source.close()  # both directions have seen the end by then, or will see an error
            target.close()

    def _start(self, target: object, *arguments: object) -> None:
        assert callable(target)
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()
