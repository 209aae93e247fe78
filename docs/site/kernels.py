"""Kernels that are copies of one process: it has imported PyTorch and the package, which takes a kernel three seconds.

``start`` starts this process. Jupyter starts ``kernels.py FOLDER CONNECTION_FILE`` for each kernel: it asks the
process, by a socket in the folder, for a copy that serves the connection file, and ends when the copy ends.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path


def start(folder: Path) -> None:
    """Starts the process, which ends with this one. Jupyter finds the kernels below ``folder``."""
    spec = {"argv": [sys.executable, __file__, str(folder), "{connection_file}"], "language": "python"}
    path = folder / "kernels" / "python3" / "kernel.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(spec | {"display_name": "Python 3"}), encoding="utf-8")
    os.environ["JUPYTER_PATH"] = str(folder)
    (folder / "socket").unlink(missing_ok=True)
    subprocess.Popen([sys.executable, __file__, str(folder)], stdin=subprocess.PIPE)


def copies(listening: socket.socket) -> None:
    """Makes a copy of this process for each question, until the process that has started this one ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # copies that have ended leave nothing
    while sys.stdin not in select.select([listening, sys.stdin], [], [])[0]:
        asking, _ = listening.accept()
        file, folder = json.loads(asking.makefile().readline())
        import torch  # noqa: F401  # now, because all chapters may be in the cache
        from ipykernel.kernelapp import IPKernelApp

        import book  # noqa: F401

        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listening.close()
            os.chdir(folder)
            IPKernelApp.launch_instance(["-f", file, f"--IPKernelApp.parent_handle={os.getppid()}"])
            os._exit(0)
        asking.close()


def ask(listening: socket.socket, file: str, folder: str) -> None:
    """Asks for a kernel, and waits until it ends. An interruption of this program would be none of the kernel."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            listening.connect("socket")
            break
        except OSError:  # the process has not begun yet
            time.sleep(0.1)
    listening.sendall(json.dumps([file, folder]).encode() + b"\n")
    listening.recv(1)  # nothing comes until the copy ends


if __name__ == "__main__":
    here = os.getcwd()
    os.chdir(sys.argv[1])  # the name of a socket must be short
    with socket.socket(socket.AF_UNIX) as made:
        if len(sys.argv) > 2:
            ask(made, sys.argv[2], here)
        else:
            made.bind("socket")
            made.listen()
            copies(made)
