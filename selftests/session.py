#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""
The other end of a session, for tests: speaks the protocol of
Documentation/protocol.rst, well or badly.

    session.py ask  HOST SGID DGID CASE [--key KEY] [--port N]
    session.py peer ADDRESS CASE [--key KEY] [--port N]

`ask` opens connections to an agg device at HOST, whose GID is DGID, as if an
agg device with SGID did it. `peer` waits for an agg device to connect and
plays its peer. GIDs are written as IP addresses. Exit 0: it went as it should.
"""
import argparse
import hashlib
import hmac
import ipaddress
import os
import socket
import struct
import sys
import time

(HELLO, CHALLENGE, AUTH, ERROR, PING, BYE, ATTACH, DETACH, KEY, KEY_GONE,
 LANE) = range(1, 12)
REPLY = 1
VERSION = 1
ERR = dict(version=1, no_device=2, auth=3, need_auth=4, no_auth=5, busy=6,
           bad_msg=7)
OK, NO_QP, GONE = 0, 1, 5
ASK, OFFER = 1, 2
NO_LANE = 0xff
LANE_LEN = 89
ATTACH_FMT = '>BBBQQQQIII16s16sQBBII16sBBBBIIII'


class Failure(Exception):
    pass


def expect(cond, what):
    if not cond:
        raise Failure(what)


def gid(text):
    addr = ipaddress.ip_address(text)
    if addr.version == 4:
        return bytes(10) + b'\xff\xff' + addr.packed
    return addr.packed


def message(mtype, body=b'', flags=0, ident=0, version=VERSION, length=None):
    if length is None:
        length = 12 + len(body)
    return struct.pack('>HBBBBHI', length, version, mtype, flags, 0, 0,
                       ident) + body


def lanes(instance, epoch, ids=(0, 1)):
    body = struct.pack('>QIHB', instance, epoch, LANE_LEN, len(ids))
    for i in ids:
        body += struct.pack('>BBBBB', i, i, 2, 5, 1)
        body += gid(f'10.10.{i}.99') + bytes(48)
        body += struct.pack('>IIIII', 1000, 1000, 0xdead00 + i, 0, 0)
    return body


def hello(sgid, dgid, instance, auth=False, magic=b'RAGG'):
    return (magic + struct.pack('>BQQ', 1 if auth else 0, 0, 0x1234) +
            gid(sgid) + gid(dgid) + os.urandom(32) +
            b'python'.ljust(64, b'\0') + lanes(instance, 1))


def mac(key, label, transcript):
    return hmac.new(key, label + transcript, hashlib.sha256).digest()


class Attach:
    NAMES = ('kind status flags instance_src instance_dst cookie_src '
             'cookie_dst epoch sqpn dqpn sgid dgid lanes_ok slane dlane '
             'lane_qpn psn lane_gid mtu rnr_timer max_rd max_dest_rd '
             'frozen_epoch frozen_psn frozen_recvs attempt').split()

    def __init__(self, **kw):
        self.v = dict.fromkeys(self.NAMES, 0)
        self.v.update(kind=OFFER, slane=0, dlane=0, sgid=bytes(16),
                      dgid=bytes(16), lane_gid=bytes(16), mtu=5)
        self.v.update(kw)

    def pack(self):
        return struct.pack(ATTACH_FMT, *(self.v[n] for n in self.NAMES))

    @classmethod
    def unpack(cls, body):
        a = cls()
        a.v = dict(zip(cls.NAMES, struct.unpack_from(ATTACH_FMT, body)))
        return a


class Conn:
    def __init__(self, sock, args):
        self.s = sock
        self.args = args
        self.buf = b''
        self.instance = int.from_bytes(os.urandom(8), 'big') | 1
        self.their_instance = None
        self.s.settimeout(args.timeout)

    def send(self, *a, **kw):
        self.raw(message(*a, **kw))

    def raw(self, data):
        self.s.sendall(data)

    def recv(self):
        """One message: (type, flags, id, body, bytes); None at the end."""
        while True:
            if len(self.buf) >= 12:
                length, _, mtype, flags, _, _, ident = struct.unpack(
                    '>HBBBBHI', self.buf[:12])
                if len(self.buf) >= length:
                    msg = self.buf[:length]
                    self.buf = self.buf[length:]
                    return mtype, flags, ident, msg[12:], msg
            try:
                data = self.s.recv(65536)
            except ConnectionError:
                data = b''
            if not data:
                return None
            self.buf += data

    def wanted(self, mtype, flags=REPLY, skip=(LANE,)):
        """The next message of interest must be of this type."""
        while True:
            m = self.recv()
            expect(m, f'closed, no message of type {mtype}')
            if m[0] == PING and not m[1] & REPLY and mtype != PING:
                self.send(PING, flags=REPLY, ident=m[2])
                continue
            if m[0] in skip and m[0] != mtype:
                continue
            expect(m[0] == mtype and m[1] == flags,
                   f'type {m[0]} flags {m[1]} id {m[2]}, wanted {mtype} '
                   f'{flags}: {m[3][:8].hex()}')
            return m

    def error(self, code):
        m = self.wanted(ERROR)
        got, version = struct.unpack_from('>HB', m[3])
        expect(got == ERR[code], f'error code {got}, wanted {code}')
        expect(version == VERSION, f'version {version}')
        self.closed()

    def closed(self):
        while True:
            m = self.recv()
            if m is None:
                return
            expect(m[0] in (LANE, PING, ERROR), f'not closed: type {m[0]}')

    # Asking side.
    def say_hello(self, **kw):
        a = self.args
        key = a.key.encode() if a.key else None
        kw.setdefault('auth', bool(key))
        first = message(HELLO, hello(a.sgid, a.dgid, self.instance, **kw),
                        ident=1)
        self.raw(first)
        transcript = first
        if key:
            m = self.wanted(CHALLENGE)
            transcript += m[4]
            auth = message(AUTH, mac(key, b'rdma_agg asker', transcript),
                           ident=1)
            self.raw(auth)
            transcript += auth
        m = self.wanted(HELLO)
        transcript += m[4]
        body = m[3]
        expect(body[:4] == b'RAGG', 'magic')
        expect(body[21:37] == gid(a.dgid), 'its GID')
        expect(body[37:53] == gid(a.sgid), 'our GID')
        self.their_instance = struct.unpack_from('>Q', body, 149)[0]
        if key:
            m = self.wanted(AUTH)
            expect(m[3] == mac(key, b'rdma_agg owner', transcript),
                   'its proof of the key')

    def attach(self, ident, **kw):
        a = Attach(instance_src=self.instance, sgid=gid(self.args.sgid),
                   dgid=gid(self.args.dgid), sqpn=0x700 + ident,
                   dqpn=0xfffff0, cookie_src=7, **kw)
        return message(ATTACH, a.pack(), ident=ident)

    def attach_reply(self, ident):
        m = self.wanted(ATTACH)
        expect(m[2] == ident, f'reply to {m[2]}, wanted {ident}')
        return Attach.unpack(m[3]).v


def connect(args):
    return Conn(socket.create_connection((args.host, args.port), 5), args)


# ------------------------------------------------------------------ ask

def ask_hello(args):
    c = connect(args)
    c.say_hello()
    c.send(PING, ident=5)
    expect(c.wanted(PING)[2] == 5, 'answer to PING')
    # Of a newer version: skipped, also what a message has more.
    c.send(200, b'whatever', ident=9)
    c.send(PING, b'more', ident=6)
    expect(c.wanted(PING)[2] == 6, 'answer to PING')
    c.send(LANE, lanes(c.instance, 2, (3,)))
    c.send(BYE)
    c.closed()


def ask_attach(args):
    c = connect(args)
    c.say_hello()
    c.raw(c.attach(1))
    r = c.attach_reply(1)
    expect(r['status'] == NO_QP, f'status {r["status"]} of an unknown QP')
    expect(r['instance_src'] == c.their_instance, 'instance in the reply')
    expect(r['instance_dst'] == c.instance, 'our instance in the reply')
    expect(r['sqpn'] == 0xfffff0 and r['dqpn'] == 0x701, 'QPs in the reply')
    # Meant for another instance of the device.
    c.raw(c.attach(2, instance_dst=c.their_instance ^ 1))
    expect(c.attach_reply(2)['status'] == GONE, 'another instance')
    # Byte by byte.
    for b in c.attach(3):
        c.raw(bytes([b]))
    expect(c.attach_reply(3)['status'] == NO_QP, 'byte by byte')
    # Many at once; replies come in any order.
    c.raw(b''.join(c.attach(i) for i in range(100, 1500)))
    seen = set()
    while len(seen) < 1400:
        m = c.wanted(ATTACH)
        expect(m[2] not in seen, 'a reply twice')
        seen.add(m[2])


def ask_key(args):
    c = connect(args)
    c.say_hello()
    for i in range(300):
        c.send(KEY, struct.pack('>IBIQQB', 0xffff0000 + i, 0, 0, 0, 0, 0),
               ident=i + 1)
    for i in range(300):
        m = c.wanted(KEY)
        rkey, status = struct.unpack_from('>IB', m[3])
        expect(m[2] == i + 1 and rkey == 0xffff0000 + i and status == 1,
               f'reply {m[2]} for {rkey:#x}: {status}')


def ask_garbage(args):
    for i in range(20):
        c = connect(args)
        try:
            c.raw(os.urandom(1 + 37 * i))
            c.s.shutdown(socket.SHUT_WR)
        except OSError:
            continue
        c.closed()


def ask_lengths(args):
    for length in (0, 1, 11, 4097, 0xffff):
        c = connect(args)
        c.send(HELLO, length=length)
        c.error('bad_msg')
        c = connect(args)
        c.say_hello()
        c.send(PING, length=length)
        c.error('bad_msg')


def ask_version(args):
    c = connect(args)
    c.send(HELLO, b'who knows', ident=3, version=9)
    c.error('version')


def ask_malformed(args):
    good = hello(args.sgid, args.dgid, 5)
    bad = [
        (HELLO, hello(args.sgid, args.dgid, 5, magic=b'RAGS')),
        (HELLO, good[:-1]),
        (HELLO, good[:20]),
        (HELLO, b''),
        (ATTACH, Attach().pack()),
        (KEY, bytes(26)),
        (PING, b''),
        (LANE, lanes(5, 1)),
        (77, b'of no known type'),
    ]
    for mtype, body in bad:
        c = connect(args)
        c.send(mtype, body, ident=1)
        c.error('bad_msg')
    # Established, then wrong.
    for what in range(12):
        c = connect(args)
        c.say_hello()
        a = c.attach(1)
        if what == 0:
            c.send(ATTACH, a[12:-1])
        elif what == 1:
            c.send(ATTACH, Attach(kind=99).pack())
        elif what == 2:   # for somebody else
            c.send(ATTACH, Attach(instance_src=c.instance,
                                  sgid=gid('192.0.2.1'),
                                  dgid=gid(args.dgid)).pack())
        elif what == 3:   # from somebody else
            c.raw(c.attach(1).replace(struct.pack('>Q', c.instance),
                                      struct.pack('>Q', c.instance ^ 1)))
        elif what == 4:
            c.send(ATTACH, a[12:], flags=REPLY)
        elif what == 5:
            c.send(KEY, b'\0')
        elif what == 6:
            c.send(KEY_GONE, struct.pack('>H', 0))
        elif what == 7:
            c.send(LANE, lanes(c.instance ^ 1, 1))
        elif what == 8:
            c.send(LANE, lanes(c.instance, 1, (1, 1)))
        elif what == 9:
            c.send(LANE, lanes(c.instance, 1, (16,)))
        elif what == 10:
            c.send(HELLO, hello(args.sgid, args.dgid, c.instance))
        else:
            c.send(DETACH, a[12:40])
        c.error('bad_msg')


def ask_no_device(args):
    c = connect(args)
    args.dgid = '192.0.2.77'
    c.send(HELLO, hello(args.sgid, args.dgid, 5), ident=1)
    c.error('no_device')


def ask_silent(args):
    """Who says nothing is sent away in 5 s, and keeps nobody out."""
    begin = time.monotonic()
    silent = [connect(args) for _ in range(200)]
    for c in silent[-20:]:
        c.raw(b'\0\x40\x01')
    c = connect(args)
    c.say_hello()
    c.send(PING, ident=5)
    c.wanted(PING)
    for s in silent:
        s.closed()
    took = time.monotonic() - begin
    expect(took < args.timeout, f'closed after {took:.1f} s')


def ask_slow_reader(args):
    """Asks and does not read: it is held back, and others are served."""
    c = connect(args)
    c.say_hello()
    c.s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    c.s.settimeout(2)
    request = b''.join(message(KEY, struct.pack('>IBIQQB', i, 0, 0, 0, 0, 0),
                               ident=i) for i in range(1, 1000))
    sent = 0
    try:
        while sent < 64 << 20:
            sent += c.s.send(request)
    except (TimeoutError, ConnectionError):
        pass
    expect(sent < 64 << 20, 'it reads without end')
    d = connect(args)
    d.say_hello()
    d.send(PING, ident=5)
    d.wanted(PING)


def ask_supersede(args):
    """A second connection of the same instance takes the place of the first."""
    c = connect(args)
    c.say_hello()
    d = connect(args)
    d.instance = c.instance
    d.say_hello()
    c.closed()
    d.send(PING, ident=5)
    d.wanted(PING)


def ask_dies(args):
    """Ends in the middle of whatever it is doing."""
    for i in range(30):
        c = connect(args)
        if i % 3:
            c.say_hello()
        a = c.attach(1) * 3
        try:
            c.raw(a[:len(a) * (i + 1) // 31])
        except ConnectionError:
            pass
        if i % 2:
            # With a reset, not in peace.
            c.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                           struct.pack('ii', 1, 0))
        c.s.close()


def ask_keepalive(args):
    """Does not answer PINGs: it is given up."""
    c = connect(args)
    c.say_hello()
    begin = time.monotonic()
    while True:
        m = c.recv()
        if m is None:
            break
        expect(m[0] in (PING, LANE), f'type {m[0]}')
    expect(time.monotonic() - begin < args.timeout, 'not given up')


def ask_wrong_key(args):
    c = connect(args)
    c.send(HELLO, hello(args.sgid, args.dgid, 5, auth=True), ident=1)
    c.wanted(CHALLENGE)
    c.send(AUTH, os.urandom(32), ident=1)
    c.error('auth')


def ask_need_key(args):
    c = connect(args)
    c.send(HELLO, hello(args.sgid, args.dgid, 5), ident=1)
    c.error('need_auth')


def ask_no_key(args):
    c = connect(args)
    c.send(HELLO, hello(args.sgid, args.dgid, 5, auth=True), ident=1)
    c.error('no_auth')


def ask_replay(args):
    """A recorded exchange does not work a second time."""
    key = args.key.encode()
    first = message(HELLO, hello(args.sgid, args.dgid, 5, auth=True), ident=1)
    c = connect(args)
    c.raw(first)
    m = c.wanted(CHALLENGE)
    auth = message(AUTH, mac(key, b'rdma_agg asker', first + m[4]), ident=1)
    c.raw(auth)
    c.wanted(HELLO)
    d = connect(args)
    d.raw(first)
    d.wanted(CHALLENGE)
    d.raw(auth)
    d.error('auth')


# ----------------------------------------------------------------- peer

def peer_accept(listener, args):
    s, _ = listener.accept()
    c = Conn(s, args)
    m = c.wanted(HELLO, flags=0)
    body = m[3]
    args.sgid = body[37:53]
    args.dgid = body[21:37]
    c.their_instance = struct.unpack_from('>Q', body, 149)[0]
    c.hello = m
    return c


def peer_reply(c, instance=None, trailer=b'', cut=0):
    if instance:
        c.instance = instance
    body = (b'RAGG' + struct.pack('>BQQ', 0, 0, 1) + c.args.sgid +
            c.args.dgid + os.urandom(32) + b'python'.ljust(64, b'\0') +
            lanes(c.instance, 1)) + trailer
    if cut:
        body = body[:-cut]
    c.send(HELLO, body, flags=REPLY, ident=c.hello[2])


def peer_case(listener, args):
    case = args.case
    c = peer_accept(listener, args)
    if case == 'silent':
        time.sleep(60)
    elif case == 'version':
        c.send(ERROR, struct.pack('>HB', ERR['version'], 9), flags=REPLY,
               ident=1, version=9)
    elif case == 'newer':
        c.send(HELLO, b'?', flags=REPLY, ident=1, version=9)
    elif case == 'garbage':
        # Not a length for the rest of which it would wait, until we close.
        c.raw(b'\xff\xff' + os.urandom(498))
    elif case == 'cut':
        peer_reply(c, cut=1)
    elif case == 'close':
        pass
    elif case == 'dies':
        # In the middle of ATTACH.
        peer_reply(c)
        c.wanted(ATTACH, flags=0)
        c.raw(message(ATTACH, b'', flags=REPLY,
                      length=12 + struct.calcsize(ATTACH_FMT)))
    elif case == 'no-answer':
        peer_reply(c, trailer=b'of a newer version')
        while c.recv():
            pass
    elif case == 'liar':
        # Answers with another instance than it has told.
        peer_reply(c)
        m = c.wanted(ATTACH, flags=0)
        a = Attach.unpack(m[3]).v
        a.update(instance_src=c.instance ^ 1, sgid=a['dgid'], dgid=a['sgid'])
        c.send(ATTACH, Attach(**a).pack(), flags=REPLY, ident=m[2])
        c.error('bad_msg')
        return
    elif case == 'wrong-id':
        peer_reply(c)
        m = c.wanted(ATTACH, flags=0)
        a = Attach.unpack(m[3]).v
        a.update(instance_src=c.instance, sgid=a['dgid'], dgid=a['sgid'])
        for i in (0, 0xffffffff, m[2] + 1):
            c.send(ATTACH, Attach(**a).pack(), flags=REPLY, ident=i)
        while c.recv():
            pass
    else:
        raise Failure(f'no case {case}')
    c.s.close()


def peer(args):
    family = socket.AF_INET6 if ':' in args.address else socket.AF_INET
    listener = socket.create_server((args.address, args.port), family=family)
    print('ready', flush=True)
    end = time.monotonic() + args.timeout
    while time.monotonic() < end:
        listener.settimeout(max(end - time.monotonic(), 0.01))
        try:
            peer_case(listener, args)
        except (TimeoutError, ConnectionError):
            pass


def main():
    p = argparse.ArgumentParser()
    sub = p.add_subparsers(dest='side', required=True)
    a = sub.add_parser('ask')
    a.add_argument('host')
    a.add_argument('sgid')
    a.add_argument('dgid')
    a.add_argument('case', choices=sorted(
        n[4:].replace('_', '-') for n in globals() if n.startswith('ask_')))
    b = sub.add_parser('peer')
    b.add_argument('address')
    b.add_argument('case')
    for s in (a, b):
        s.add_argument('--key')
        s.add_argument('--port', type=int, default=47910)
        s.add_argument('--timeout', type=float, default=30)
    args = p.parse_args()
    try:
        if args.side == 'ask':
            globals()['ask_' + args.case.replace('-', '_')](args)
        else:
            peer(args)
    except (Failure, TimeoutError) as e:
        print(f'session.py: {args.case}: {e or "timeout"}', file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
