#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Stands in for the service manager: notify.py SOCKET WORD... ends with 0 when each WORD came, as often and in the order
given; 1 when one of them is not there a minute after the one before. Prints "ready" when it listens, and then each WORD
as it comes."""
import socket
import sys
import time

SECONDS = 60

server = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
server.bind(sys.argv[1])
server.settimeout(SECONDS)
print("ready", flush=True)
wanted = sys.argv[2:]
end = time.monotonic() + SECONDS
try:
    while wanted:
        if time.monotonic() > end:
            raise TimeoutError
        if wanted[0] in server.recv(65536).decode().split("\n"):
            print(wanted.pop(0), flush=True)
            end = time.monotonic() + SECONDS
except TimeoutError:
    sys.exit(f"never came: {wanted[0]}")
