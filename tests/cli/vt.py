# SPDX-License-Identifier: GPL-2.0-or-later
"""A program on a terminal: a terminal that knows what ncurses sends to an xterm, and a shell that can stop a job.

What the terminal doesn't know is an error, so that no test passes by not looking.
"""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

SECONDS = 60
CSI = re.compile(rb"\x1b\[([?>]?)([0-9;]*)([@-~])")
OTHER = re.compile(rb"\x1b([()][0-9A-B]|[=>78MDE])")
PARTIAL = re.compile(rb"\x1b(\[[?>]?[0-9;]*|[()])?\Z")


class Terminal:
    """The screen: text() is what a person sees."""

    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.main, self.main_at = self.blank(), (0, 0)
        self.cells, self.y, self.x = self.main, 0, 0
        self.alternate, self.cursor, self.last, self.rest = False, True, " ", b""
        self.top, self.bottom = 0, rows - 1
        self.full = False    # the next character goes to the next line

    def blank(self):
        return [[" "] * self.columns for _ in range(self.rows)]

    def resize(self, columns, rows):
        """As an xterm does: lines are cut or get blanks, what was there stays until it is drawn over."""
        self.columns, self.rows = columns, rows

        def fit(cells):
            cells = [(line + [" "] * columns)[:columns] for line in cells[:rows]]
            return cells + [[" "] * columns for _ in range(rows - len(cells))]
        alone = self.cells is self.main
        self.main = fit(self.main)
        self.cells = self.main if alone else fit(self.cells)
        self.y, self.x, self.top, self.bottom, self.full = min(self.y, rows - 1), min(self.x, columns - 1), 0, rows - 1, False

    def text(self):
        return "\n".join("".join(line).rstrip() for line in self.cells).rstrip("\n") + "\n"

    def feed(self, data):
        data, self.rest = self.rest + data, b""
        at = 0
        while at < len(data):
            if data[at] != 0x1b:
                self.put(data[at])
                at += 1
                continue
            found = CSI.match(data, at)
            if found:
                self.control(*(part.decode() for part in found.groups()))
            else:
                found = OTHER.match(data, at)
                if not found and PARTIAL.match(data, at):
                    self.rest = data[at:]
                    return
                if not found or found[1][:1] in b"78MDE":
                    raise AssertionError(f"no xterm was asked for {data[at:at + 12]!r}")
            at = found.end()

    def line_feed(self):
        if self.y != self.bottom:
            self.y = min(self.y + 1, self.rows - 1)
            return
        del self.cells[self.top]
        self.cells.insert(self.bottom, [" "] * self.columns)

    def put(self, byte):
        if byte == 0x0a:
            self.line_feed()
        elif byte == 0x0d:
            self.x, self.full = 0, False
        elif byte == 0x08:
            self.x, self.full = max(self.x - 1, 0), False
        elif byte >= 0x20:
            assert byte < 0x7f, f"byte {byte:#x} on the screen"
            if self.full:
                self.x, self.full = 0, False
                self.line_feed()
            self.cells[self.y][self.x] = self.last = chr(byte)
            if self.x + 1 == self.columns:
                self.full = True
            else:
                self.x += 1
        elif byte not in (0, 7):
            raise AssertionError(f"control character {byte:#x}")

    def mode(self, number, on):
        if number == 1049 and on != self.alternate:
            self.alternate = on
            if on:
                self.main_at, self.cells = (self.y, self.x), self.blank()
            else:
                self.cells, (self.y, self.x) = self.main, self.main_at
        elif number == 25:
            self.cursor = on

    def erase(self, y, first, end):
        self.cells[y][first:end] = [" "] * (end - first)

    def control(self, private, text, final):
        numbers = [int(part or 0) for part in text.split(";")]
        n = max(numbers[0], 1)
        if final in "hl":
            for number in numbers if private else ():
                self.mode(number, final == "h")
            return
        if final in "mtc":
            return
        assert not private, (private, text, final)
        row = self.cells[self.y]
        if final == "b":
            for _ in range(n):
                self.put(ord(self.last))
            return
        self.full = False
        if final == "A":
            self.y = max(self.y - n, 0)
        elif final == "B":
            self.y = min(self.y + n, self.rows - 1)
        elif final == "C":
            self.x = min(self.x + n, self.columns - 1)
        elif final == "D":
            self.x = max(self.x - n, 0)
        elif final == "G":
            self.x = min(n, self.columns) - 1
        elif final == "d":
            self.y = min(n, self.rows) - 1
        elif final == "H":
            self.y = min(n, self.rows) - 1
            self.x = min(max(numbers[1], 1) if len(numbers) > 1 else 1, self.columns) - 1
        elif final == "J":
            assert numbers[0] in (0, 2)
            first = self.y + 1 if numbers[0] == 0 else 0
            if numbers[0] == 0:
                self.erase(self.y, self.x, self.columns)
            for y in range(first, self.rows):
                self.erase(y, 0, self.columns)
        elif final == "K":
            assert numbers[0] in (0, 1)
            self.erase(self.y, *((self.x, self.columns) if numbers[0] == 0 else (0, self.x + 1)))
        elif final == "X":
            self.erase(self.y, self.x, min(self.x + n, self.columns))
        elif final == "P":
            del row[self.x:self.x + n]
            row += [" "] * (self.columns - len(row))
        elif final == "@":
            row[self.x:self.x] = [" "] * n
            del row[self.columns:]
        elif final == "r":
            self.top, self.bottom = n - 1, (numbers[1] if len(numbers) > 1 else self.rows) - 1
            self.y = self.x = 0
        elif final in "LM":
            for _ in range(n):
                del self.cells[self.bottom if final == "L" else self.y]
                self.cells.insert(self.y if final == "L" else self.bottom, [" "] * self.columns)
        elif final in "ST":
            for _ in range(n):
                del self.cells[self.top if final == "S" else self.bottom]
                self.cells.insert(self.bottom if final == "S" else self.top, [" "] * self.columns)
        else:
            raise AssertionError(f"no xterm was asked for CSI {text} {final}")


class Session:
    """A shell that runs one job. It says what becomes of that in .events: "stopped", "ended STATUS"."""

    def __init__(self, argv, columns=80, rows=24, term="xterm"):
        self.terminal = Terminal(columns, rows)
        self.events, self.pid = [], None
        news, tell = os.pipe()
        orders, give = os.pipe()
        self.shell, self.fd = pty.fork()
        if self.shell == 0:
            os.close(news)
            os.close(give)
            shell(argv, term, tell, orders, columns, rows)
        os.close(tell)
        os.close(orders)
        self.news, self.orders = news, give
        self.wait(lambda: self.pid, "the job does not start")

    def size(self, columns, rows):
        self.terminal.resize(columns, rows)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, keys):
        os.write(self.fd, keys)

    def resume(self):
        os.write(self.orders, b"c")

    def text(self):
        return self.terminal.text()

    def wait(self, is_so, complaint):
        """Until it is so; what the terminal shows meanwhile is read."""
        end = time.monotonic() + SECONDS
        while not is_so():
            if time.monotonic() > end:
                raise AssertionError(f"{complaint}; {self.events}; the screen is:\n{self.text()}")
            for fd in select.select([self.fd, self.news], [], [], 0.2)[0]:
                self.read(fd)

    def read(self, fd):
        try:
            some = os.read(fd, 65536)
        except OSError:    # nobody has this terminal any more
            return
        if fd == self.fd:
            self.terminal.feed(some)
            return
        for line in some.decode().splitlines():
            if line.startswith("pid "):
                self.pid = int(line[4:])
            else:
                self.events.append(line)

    def settle(self):
        """What was written before the last event is on the screen."""
        while select.select([self.fd], [], [], 0.1)[0]:
            self.read(self.fd)

    def close(self):
        for pid in (self.pid, self.shell):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        os.waitpid(self.shell, 0)


def shell(argv, term, tell, orders, columns, rows):
    """As a shell with job control: the job is a group of its own and has the terminal while it runs."""
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    os.environ["TERM"] = term
    os.environ.pop("COLUMNS", None)
    os.environ.pop("LINES", None)
    os.write(1, b"$ job\r\n")
    modes = termios.tcgetattr(0)
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        os.close(tell)
        os.close(orders)
        os.execv(argv[0], argv)
    os.write(tell, f"pid {pid}\n".encode())
    while True:
        _, status = os.waitpid(pid, os.WUNTRACED)
        os.tcsetpgrp(0, os.getpid())
        tidy = "" if termios.tcgetattr(0) == modes else " untidy"
        if not os.WIFSTOPPED(status):
            os.write(tell, f"ended {os.waitstatus_to_exitcode(status)}{tidy}\n".encode())
            break
        os.write(tell, f"stopped{tidy}\n".encode())
        os.read(orders, 1)
        os.tcsetpgrp(0, pid)
        os.kill(pid, signal.SIGCONT)
    # The terminal goes away with its last user.
    while os.read(orders, 1):
        pass
    os._exit(0)
