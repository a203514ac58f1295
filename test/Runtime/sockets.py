"""python sockets.py PROGRAM: runs the program of the communicators' suite as ranks that talk over TCP."""

import os
import random
import socket
import struct
import subprocess
import sys
import time


def start(rank, ranks, port, **more):
    environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "localhost", "MASTER_PORT": str(port), **more}
    environment = {name: value for name, value in environment.items() if value is not None}
    return subprocess.Popen([sys.argv[1]], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def port():
    return random.randrange(20000, 50000)


for ranks in (2, 3, 5):
    where = port()
    # The first may come last.
    processes = [start(rank, ranks, where) for rank in range(1, ranks)]
    time.sleep(0.1)
    processes.append(start(0, ranks, where))
    for process in processes:
        text, _ = process.communicate(timeout=120)
        assert process.returncode == 0 and "1 test from 1 test suite ran" in text, (ranks, text)

# Without the address, with one that is none, and with a caller who is none of them.
text, _ = start(1, 2, port(), MASTER_ADDR=None).communicate(timeout=60)
assert text == ("RANK and WORLD_SIZE are set, but not MASTER_ADDR and MASTER_PORT, by which ranks find each other; start them with "
                "torchrun, or with mpirun -n 2\n"), text  # fmt: skip
text, _ = start(1, 2, port(), MASTER_ADDR="no.such.host.").communicate(timeout=60)
assert text.startswith("MASTER_ADDR is 'no.such.host.', which names no host: "), text
where = port()
pair = [start(rank, ranks, where) for rank, ranks in ((0, 2), (1, 3))]
text, _ = pair[0].communicate(timeout=60)
assert text == f"on port {where + 1} something else calls than a rank of this run\n", text
pair[1].communicate(timeout=60)

# A rank that dies in the middle is named by the others: here one that meets them and goes.
where = port()
first = start(0, 2, where)
while True:
    try:
        goer = socket.create_connection(("localhost", where + 1))
        break
    except ConnectionRefusedError:
        time.sleep(0.02)
goer.sendall(struct.pack("<QiiIHxx", 0x31504D5243534B53, 1, 2, 0, 1))
assert len(goer.recv(16, socket.MSG_WAITALL)) == 16
goer.close()
text, _ = first.communicate(timeout=120)
assert first.returncode != 0 and "rank 1 has gone: " in text, text
