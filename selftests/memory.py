#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""
Memory regions of one PD, for tests of lanes that come and go.

    memory.py churn DEVICE    registers and deregisters from two threads, until SIGTERM
    memory.py stale DEVICE    registers memory, unmaps it, and keeps the region until SIGTERM

Says "ready" when it has begun. Exit 0: no call failed.
"""
import ctypes
import mmap
import random
import signal
import sys
import threading

import pyverbs.enums as e
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD

ACCESS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE
KEPT = 32
SIZE = 65536

ended = threading.Event()
failures = []


def churn(pd, seed):
    """Some regions are kept for a while, so that a lane that joins meets old and new ones."""
    dice = random.Random(seed)
    kept = []
    try:
        while not ended.is_set():
            if len(kept) == KEPT:
                kept.pop(dice.randrange(KEPT)).close()
            kept.append(MR(pd, dice.choice((100, 4096, 100000)), ACCESS))
        for mr in kept:
            mr.close()
    except Exception as error:  # whatever it is, it is the result
        failures.append(error)
        ended.set()


def main():
    mode, device = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    ctx = Context(name=device)
    pd = PD(ctx)
    if mode == 'churn':
        threads = [threading.Thread(target=churn, args=(pd, seed)) for seed in range(2)]
        for thread in threads:
            thread.start()
        print('ready', flush=True)
        ended.wait()
        for thread in threads:
            thread.join()
    else:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        address = libc.mmap(None, ctypes.c_size_t(SIZE), mmap.PROT_READ | mmap.PROT_WRITE,
                            mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, ctypes.c_long(0))
        mr = MR(pd, SIZE, ACCESS, address)
        if libc.munmap(ctypes.c_void_p(address), ctypes.c_size_t(SIZE)):
            failures.append(OSError(ctypes.get_errno(), 'munmap'))
        print('ready', flush=True)
        ended.wait()
        mr.close()
    for error in failures:
        print(f'{device}: {error}', file=sys.stderr)
    pd.close()
    ctx.close()
    return bool(failures)


if __name__ == '__main__':
    sys.exit(main())
