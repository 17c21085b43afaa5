"""Runs under `hearth run`: hands the root of the mount to the session that started it, and stays while that lives."""

import json
import os
import socket
import sys


def main():
    store, number = sys.argv[1], int(sys.argv[2])
    session = socket.socket(fileno=number)
    root = os.open(store, os.O_PATH | os.O_DIRECTORY)
    told = {"lender": os.environ.get("HEARTH_LENDER")}
    socket.send_fds(session, [json.dumps(told).encode()], [root])
    os.close(root)
    # Nothing comes: it ends with the last process that has the other end.
    session.recv(1)


main()
