#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What the exporter's test needs of a client, and of systemd.

http.py pass FILE COMMAND...           hands a listening socket on as systemd does; its port goes into FILE
http.py ask PORT METHOD PATH [ACCEPT]  status, headers and body as they come
http.py drip PORT SECONDS              a byte now and then: exit 0 once hung up on, 1 if it isn't within SECONDS
http.py idle PORT N PATIENCE           the seconds of an answer beside N that say nothing: exit 1 beyond PATIENCE / 2
http.py crowd PORT N                   N clients at once: how many got pghotd_up 1, how many different answers
"""
import os
import select
import socket
import sys
import threading
import time

SECONDS = 60    # for what takes a moment


def connect(port):
    return socket.create_connection(("127.0.0.1", port), SECONDS)


def ask(port, method, path, accept=None):
    with connect(port) as sock:
        more = f"Accept: {accept}\r\n" if accept else ""
        sock.sendall(f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n{more}\r\n".encode())
        text = b""
        while True:
            piece = sock.recv(65536)
            if not piece:
                return text.decode()
            text += piece


def hand_on(file, command):
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(64)
    with open(file + ".new", "w", encoding="utf-8") as out:
        out.write(str(listener.getsockname()[1]))
    os.rename(file + ".new", file)
    os.dup2(listener.fileno(), 3)
    os.set_inheritable(3, True)    # which dup2() leaves out where it is 3 already
    os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
    os.execvp(command[0], command)


def drip(port, seconds):
    end = time.monotonic() + seconds
    with connect(port) as sock:
        while time.monotonic() < end:
            try:
                sock.sendall(b"G")
                if select.select([sock], [], [], 0.1)[0] and not sock.recv(1):
                    return 0
            except ConnectionError:
                return 0
    return 1


def idle(port, n, patience):
    silent = [connect(port) for _ in range(n)]
    begun = time.monotonic()
    up = "\npghotd_up 1\n" in ask(port, "GET", "/metrics")
    seconds = time.monotonic() - begun
    print(f"{seconds:.3f} s beside {len(silent)}")
    return 0 if up and seconds < patience / 2 else 1


def crowd(port, n):
    bodies = []

    def one():
        bodies.append(ask(port, "GET", "/metrics").split("\r\n\r\n", 1)[1])

    threads = [threading.Thread(target=one) for _ in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(sum("\npghotd_up 1\n" in body for body in bodies), "up,", len(set(bodies)), "different")


verb, words = sys.argv[1], sys.argv[2:]
if verb == "pass":
    hand_on(words[0], words[1:])
elif verb == "ask":
    sys.stdout.write(ask(int(words[0]), *words[1:]).replace("\r\n", "\n"))
elif verb == "drip":
    sys.exit(drip(int(words[0]), float(words[1])))
elif verb == "idle":
    sys.exit(idle(int(words[0]), int(words[1]), float(words[2])))
elif verb == "crowd":
    crowd(int(words[0]), int(words[1]))
