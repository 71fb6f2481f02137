#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Stands in for the service manager: notify.py SOCKET WORD... ends with 0 when each WORD came, as often and in the order
given; 1 when they did not within 30 s. Prints "ready" when it listens."""
import socket
import sys

server = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
server.bind(sys.argv[1])
server.settimeout(30)
print("ready", flush=True)
wanted = sys.argv[2:]
try:
    while wanted:
        if wanted[0] in server.recv(65536).decode().split("\n"):
            wanted.pop(0)
except TimeoutError:
    sys.exit(f"never came: {wanted[0]}")
