from __future__ import annotations

import os
import socket

from pytest_kwait.simulator.runtimes.processes.messages import MessageReader, pack_message


def test_messages_in_pieces_with_their_descriptors() -> None:
    sender, receiver = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with sender, receiver:
        receiver.setblocking(False)
        reader = MessageReader(receiver)
        assert reader.read() == []
        first = pack_message({"name": "a", "text": "ü\udcff"}, 1)
        second = pack_message({"name": "b"}, 0)
        read, write = os.pipe()
        socket.send_fds(sender, [first[:5]], [read])
        assert reader.read() == []
        sender.sendall(first[5:] + second[:-1])
        [(message, [fd])] = reader.read() or []
        assert message == {"name": "a", "text": "ü\udcff"}
        assert not os.get_inheritable(fd)
        os.write(write, b"x")
        assert os.read(fd, 9) == b"x"
        sender.sendall(second[-1:])
        assert reader.read() == [({"name": "b"}, [])]
        for each in (read, write, fd):
            os.close(each)
        sender.shutdown(socket.SHUT_WR)
        assert reader.read() is None
