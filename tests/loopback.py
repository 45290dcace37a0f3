"""Run a command where the only network is loopback: `unshare --net python loopback.py COMMAND ...`."""

import fcntl
import os
import socket
import struct
import sys

SIOCSIFFLAGS = 0x8914
UP_AND_RUNNING = 0x1 | 0x40

if __name__ == "__main__":
    # A new namespace's loopback is down, and notebooks talk to their kernels by it.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", UP_AND_RUNNING))
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606 - a test's own command
