#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""
Requests to the netlink family that no tool would send, made of its
specification.

  nl_requests.py missing     each request without what it needs
  nl_requests.py types       each attribute with every wrong length, flag, place
  nl_requests.py ranges      each attribute beyond its range
  nl_requests.py messages    commands, headers and messages that are none
  nl_requests.py random N    N random requests; that the kernel lives is the test
  nl_requests.py errors      every refusal of a well-formed request
  nl_requests.py resume N    all dumps, read with the smallest buffers; N QPs
  nl_requests.py flood N     set a parameter N times

Several words may be given with commas between. Each request must be refused, with
an error, a text, and the attribute it is about, and must change nothing. Prints what is wrong; exit code 1. An agg device
"agg0" with lanes rxe0/1... is there; --user: we may not change anything.
"""

import errno
import os
import random
import socket
import struct
import sys

import yaml

# The loader in C, where there is one: ten times as fast.
Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

NETLINK_GENERIC, GENL_ID_CTRL, SOL_NETLINK = 16, 16, 270
NLM_F_REQUEST, NLM_F_MULTI, NLM_F_ACK, NLM_F_DUMP = 1, 2, 4, 0x300
NLM_F_CAPPED, NLM_F_ACK_TLVS = 0x100, 0x200
NLMSG_ERROR, NLMSG_DONE = 2, 3
NLA_F_NESTED = 0x8000
MSG, OFFS, MISS_TYPE = 1, 2, 5
SIZES = {"u8": 1, "u16": 2, "u32": 4, "u64": 8, "s32": 4}

problems = []
count = 0


def wrong(what):
    problems.append(what)


def attr(kind, data):
    return struct.pack("=HH", len(data) + 4, kind) + data + bytes(-len(data) % 4)


def attrs_of(data):
    """(type, value, offset) of each attribute."""
    at = 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        if length < 4 or at + length > len(data):
            break
        yield kind & 0x3fff, data[at + 4:at + length], at
        at += (length + 3) & ~3


class Refusal:
    def __init__(self, err=0, text=None, offset=None, missing=None):
        self.err, self.text, self.offset, self.missing = err, text, offset, missing
        self.replies = []

    def __str__(self):
        name = errno.errorcode.get(-self.err, self.err) if self.err else "no error"
        return f"{name}, text {self.text!r}, offset {self.offset}, missing {self.missing}"


class Netlink:
    def __init__(self, bufsize=1 << 17):
        # The kernel makes the parts of a dump as large as the largest buffer it was ever given.
        self.bufsize = bufsize
        self.sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC)
        self.sock.bind((0, 0))
        self.sock.settimeout(30)
        for option in (11, 10, 12):  # EXT_ACK, CAP_ACK, GET_STRICT_CHK
            self.sock.setsockopt(SOL_NETLINK, option, 1)
        self.seq = 0
        reply = self.ask(GENL_ID_CTRL, 3, attr(2, b"rdma_agg\0"))  # CTRL_CMD_GETFAMILY
        if reply.err:
            sys.exit("no family rdma_agg")
        self.family = [struct.unpack("=H", v)[0] for k, v, _ in attrs_of(reply.replies[0])
                       if k == 1][0]

    def raw(self, message):
        """Send one message, return the answer to it."""
        self.sock.send(message)
        result = Refusal()
        while True:
            data = self.sock.recv(self.bufsize)
            while len(data) >= 16:
                length, kind, flags, seq, _ = struct.unpack_from("=IHHII", data)
                body, data = data[16:length], data[(length + 3) & ~3:]
                if seq != self.seq:
                    continue
                if kind in (NLMSG_ERROR, NLMSG_DONE):
                    result.err = struct.unpack_from("=i", body)[0] if len(body) >= 4 else 0
                    skip = 4
                    if kind == NLMSG_ERROR:
                        skip = 4 + 16
                        if not flags & NLM_F_CAPPED and result.err:
                            skip = 4 + ((struct.unpack_from("=I", body, 4)[0] + 3) & ~3)
                    if flags & NLM_F_ACK_TLVS:
                        for k, v, _ in attrs_of(body[skip:]):
                            if k == MSG:
                                result.text = v.rstrip(b"\0").decode()
                            elif k == OFFS:
                                result.offset = struct.unpack("=I", v)[0]
                            elif k == MISS_TYPE:
                                result.missing = struct.unpack("=I", v)[0]
                    return result
                result.replies.append(body[4:])

    def ask(self, family, cmd, attrs, flags=NLM_F_ACK, version=1):
        self.seq += 1
        message = struct.pack("=IHHIIBBH", 20 + len(attrs), family, NLM_F_REQUEST | flags,
                              self.seq, 0, cmd, version, 0) + attrs
        return self.raw(message)


class Spec:
    def __init__(self):
        here = os.path.dirname(os.path.abspath(__file__))
        with open(f"{here}/../Documentation/netlink/specs/rdma_agg.yaml", encoding="utf-8") as f:
            spec = yaml.load(f, Loader)
        self.sets = {}
        for one in spec["attribute-sets"]:
            for number, a in enumerate(one["attributes"], 1):
                a["number"] = number
            self.sets[one["name"]] = {a["name"]: a for a in one["attributes"]}
        self.enums = {d["name"]: len(d["entries"]) for d in spec["definitions"]}
        self.ops = {}
        for number, op in enumerate(spec["operations"]["list"], 1):
            if "do" in op:
                op["number"] = number
                op["attrs"] = {n: self.sets[op["attribute-set"]][n]
                               for n in op["do"]["request"]["attributes"]}
                self.ops[op["name"]] = op


# A value that is right, for each attribute of a request.
GOOD = {
    "dev-name": b"agg0\0", "ibdev-name": b"rxe0\0", "ifname": b"lane0\0",
    "ifindex": 1, "psk": b"0123456789abcdef", "gid": bytes(16), "sgid": bytes(16),
    "rail": 9, "weight": 77, "admin": 1, "policy": 1, "load-bound": 200, "tx-queues": 3,
    "rx-queues": 5,
    "session-port": 47911, "connect-timeout": 3000, "keepalive": 2000, "rnr-grace": 50,
    "ack-timeout-min": 17, "ack-timeout-max": 21, "failover-timeout": 20000,
    "updelay": 5, "probe-interval": 300, "probe-lost": 5,
    "ibdev-port": 1, "qpn": 17,
}


def encode(a, value):
    if isinstance(value, bytes):
        return attr(a["number"], value)
    return attr(a["number"], value.to_bytes(SIZES[a["type"]], sys.byteorder))


class Tests:
    def __init__(self):
        self.spec = Spec()
        self.nl = Netlink()
        self.user = "--user" in sys.argv
        index = [v for k, v, _ in attrs_of(self.state("dev-get")[0]) if k == 2]
        self.index = struct.unpack("=I", index[0])[0]
        # The counters move by themselves.
        self.before = self.snapshot()

    def state(self, op, nl=None):
        nl = nl or self.nl
        return nl.ask(nl.family, self.spec.ops[op]["number"], b"", NLM_F_DUMP).replies

    def snapshot(self):
        return [self.state(op) for op in ("dev-get", "lane-get", "param-get")]

    def good(self, a):
        return self.index if a["name"] == "dev-index" else GOOD[a["name"]]

    def full(self, op, without=(), instead=None):
        """A request that is right but for what is left out or put instead."""
        out = b""
        for name, a in op["attrs"].items():
            if name in without:
                continue
            out += instead[name] if instead and name in instead else encode(a, self.good(a))
        return out

    def refused(self, what, op, attrs, about=None, errors=(), flags=NLM_F_ACK, text=True):
        """
        The request is refused: with one of the errors, a text, and about the
        attribute of that name: the bad or the missing one.
        """
        global count
        count += 1
        number = op["number"] if isinstance(op, dict) else op
        r = self.nl.ask(self.nl.family, number, attrs, flags)
        name = f"{op['name'] if isinstance(op, dict) else op}: {what}"
        if not r.err:
            wrong(f"{name}: not refused")
            return
        if self.user and isinstance(op, dict) and "flags" in op:
            # whatever is wrong with it, who asks is looked at first
            if -r.err != errno.EPERM:
                wrong(f"{name}: {r}")
            return
        if errors and -r.err not in errors:
            wrong(f"{name}: {r}")
        if text and not r.text:
            wrong(f"{name}: no text: {r}")
        if about:
            want = op["attrs"][about]["number"]
            got = r.missing
            if r.offset is not None:
                got = [k for k, _, at in attrs_of(attrs) if at + 20 == r.offset]
                got = got[0] if got else "an offset without attribute"
            if got != want:
                wrong(f"{name}: it is about attribute {got}, not {want} ({about}): {r}")

    def unchanged(self):
        after = self.snapshot()
        if after != self.before:
            wrong(f"something has changed:\n{self.before}\n{after}")

    # ---------------------------------------------------------------

    def missing(self):
        ops = self.spec.ops
        for op in ops.values():
            self.refused("nothing", op, b"", "dev-name", {errno.EINVAL})
        both = ("dev-name", "dev-index")
        for op in ops.values():
            if op["name"] != "dev-new":
                self.refused("no device", op, self.full(op, both), "dev-name", {errno.EINVAL})
        new = ops["dev-new"]
        self.refused("no netdev", new, self.full(new, ("ifindex", "ifname")), "ifname",
                     {errno.EINVAL})
        # ifindex is no good value of ours: it is left out with the name
        self.refused("no name", new, self.full(new, ("dev-name", "ifindex")), "dev-name",
                     {errno.EINVAL})
        for name in ("lane-get", "lane-new", "lane-del", "lane-set"):
            self.refused("no lane", ops[name], self.full(ops[name], ("ibdev-name",)),
                         "ibdev-name", {errno.EINVAL})
        self.refused("nothing to set", ops["lane-set"],
                     self.full(ops["lane-set"], ("rail", "weight", "admin")), "weight",
                     {errno.EINVAL})
        self.refused("no peer", ops["peer-get"], self.full(ops["peer-get"], ("gid",)), "gid",
                     {errno.EINVAL})
        self.refused("no qpn", ops["qp-get"], self.full(ops["qp-get"], ("qpn",)), "qpn",
                     {errno.EINVAL})
        op = ops["param-set"]
        self.refused("nothing to set", op, self.full(op, [n for n in op["attrs"]
                                                          if n not in both]), "policy",
                     {errno.EINVAL})

    def types(self):
        for op in self.spec.ops.values():
            for name, a in op["attrs"].items():
                lengths = (0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16)
                if a["type"] == "string":
                    longest = a["checks"]["max-len"]
                    bad = [b"", b"x" * 4, b"x" * 64, b"x" * (longest + 1) + b"\0",
                           b"x" * 300 + b"\0"]
                elif a["type"] == "binary":
                    exact = a.get("checks", {}).get("exact-len")
                    bad = [bytes(n) for n in lengths if n != exact] if exact else []
                    bad += [bytes(65), bytes(2000)]
                else:
                    bad = [bytes([1] * n) for n in lengths if n != SIZES[a["type"]]]
                for value in bad:
                    self.refused(f"{name} of {len(value)} bytes", op,
                                 self.full(op, instead={name: attr(a["number"], value)}), name,
                                 {errno.EINVAL, errno.ERANGE})
                    if "dump" in op and name in ("dev-name", "dev-index"):
                        self.refused(f"dump, {name} of {len(value)} bytes", op,
                                     attr(a["number"], value), None,
                                     {errno.EINVAL, errno.ERANGE}, NLM_F_DUMP)
                good = encode(a, self.good(a))
                value = struct.pack("=HH", struct.unpack_from("=H", good)[0],
                                    a["number"] | NLA_F_NESTED) + good[4:]
                self.refused(f"{name} as a nest", op,
                             self.full(op, instead={name: value}), name, {errno.EINVAL})
            # attributes that are not of this request
            for number in (*range(1, len(self.spec.sets[op["attribute-set"]]) + 3), 63, 119):
                if number in [a["number"] for a in op["attrs"].values()]:
                    continue
                extra = attr(number, bytes(4))
                self.refused(f"attribute {number}", op, self.full(op, ("ifindex",)) + extra,
                             None, {errno.EINVAL})
            self.refused("attribute of length 3", op, self.full(op, ("ifindex",)) +
                         b"\x03\0\x02\0", None, {errno.EINVAL})
            self.refused("cut attribute", op, self.full(op, ("ifindex",)) + b"\x40\0\x02\0",
                         None, {errno.EINVAL})
            self.refused("rest behind the attributes", op, self.full(op, ("ifindex",)) + b"\xff",
                         None, {errno.EINVAL})

    def ranges(self):
        for op in self.spec.ops.values():
            for name, a in op["attrs"].items():
                if a["type"] not in SIZES:
                    continue
                checks, top = a.get("checks", {}), 256 ** SIZES[a["type"]] - 1
                low, high = checks.get("min", 0), checks.get("max", top)
                if "enum" in a:
                    high = self.spec.enums[a["enum"]] - 1
                if name == "weight":
                    high = 16777215
                bad = [v for v in (0, low - 1, high + 1, high + 256, 2**15, 2**16, 2**31, top)
                       if 0 <= v <= top and not low <= v <= high]
                for value in bad:
                    self.refused(f"{name} {value}", op,
                                 self.full(op, ("ifindex",) if name != "ifindex" else ("ifname",),
                                           {name: encode(a, value)}), name,
                                 {errno.ERANGE, errno.EINVAL})

    def messages(self):
        family = self.nl.family
        known = {op["number"] for op in self.spec.ops.values()}
        for cmd in range(256):
            if cmd not in known:
                self.refused("no command", cmd, b"", None, {errno.EOPNOTSUPP}, text=False)
        for op in self.spec.ops.values():
            if "dump" not in op:
                self.refused("dump", op, b"", None, {errno.EOPNOTSUPP}, NLM_F_DUMP,
                             text=False)
        # a header that ends early, and one with what is reserved set
        for length in (16, 17, 19):
            self.nl.seq += 1
            r = self.nl.raw(struct.pack("=IHHII", length, family, NLM_F_REQUEST | NLM_F_ACK,
                                        self.nl.seq, 0) + bytes(length - 16))
            if not r.err:
                wrong(f"a message of {length} bytes is not refused")
        self.nl.seq += 1
        number = self.spec.ops["dev-get"]["number"]
        r = self.nl.raw(struct.pack("=IHHIIBBH", 20, family, NLM_F_REQUEST | NLM_F_ACK,
                                    self.nl.seq, 0, number, 1, 0x1234))
        if not r.err:
            wrong("reserved header bits are not refused")

    def errors(self):
        ops = self.spec.ops
        for op in ops.values():
            if op["name"] == "dev-new":
                continue
            both = ("dev-name", "dev-index")
            a = op["attrs"]
            self.refused("unknown device", op,
                         self.full(op, both) + encode(a["dev-name"], b"nope\0"), "dev-name",
                         {errno.ENODEV})
            self.refused("unknown index", op,
                         self.full(op, both) + encode(a["dev-index"], 99999), "dev-index",
                         {errno.ENODEV})
            self.refused("index and name of two devices", op,
                         self.full(op, both) + encode(a["dev-index"], self.index) +
                         encode(a["dev-name"], b"nope\0"), "dev-name", {errno.ENODEV})
            if "dump" in op:
                self.refused("dump of an unknown device", op,
                             encode(a["dev-name"], b"nope\0"), None, {errno.ENODEV}, NLM_F_DUMP)
            # no RDMA device of ours may be named by its lane's name
            self.refused("a lane for a device", op,
                         self.full(op, both) + encode(a["dev-name"], b"rxe0\0"), "dev-name",
                         {errno.ENODEV})
        for name, extra in (("lane-get", "ibdev-name"), ("stat-get", "ibdev-name"),
                            ("lane-get", "ibdev-port"), ("qp-get", "qpn")):
            a = ops[name]["attrs"][extra]
            self.refused(f"dump with {extra}", ops[name], encode(a, self.good(a)), None,
                         {errno.EINVAL}, NLM_F_DUMP)
        for name in ("lane-get", "lane-del", "lane-set", "stat-get"):
            op = ops[name]
            for ibdev, port in ((b"rxe99\0", 1), (b"rxe0\0", 2), (b"agg0\0", 1), (b"\0", 1)):
                self.refused(f"lane {ibdev} {port}", op,
                             self.full(op, instead={
                                 "ibdev-name": encode(op["attrs"]["ibdev-name"], ibdev),
                                 "ibdev-port": encode(op["attrs"]["ibdev-port"], port)}),
                             "ibdev-name", {errno.ENOENT})
        op = ops["stat-get"]
        self.refused("port without name", op, self.full(op, ("ibdev-name",)), "ibdev-port",
                     {errno.EINVAL})
        op = ops["lane-new"]
        for what, ibdev, port, err in (
                ("is a lane", b"rxe0\0", 1, errno.EBUSY),
                ("no device", b"rxe99\0", 1, errno.ENODEV),
                ("empty name", b"\0", 1, errno.ENODEV),
                ("no port", b"rxe0\0", 9, errno.EINVAL),
                ("itself", b"agg0\0", 1, errno.EINVAL)):
            self.refused(what, op, self.full(op, instead={
                "ibdev-name": encode(op["attrs"]["ibdev-name"], ibdev),
                "ibdev-port": encode(op["attrs"]["ibdev-port"], port)}), "ibdev-name",
                {err})
        op, a = ops["dev-new"], ops["dev-new"]["attrs"]
        other = encode(a["dev-name"], b"agg7\0")
        for what, attrs, about, err in (
                ("name is taken", encode(a["dev-name"], b"agg0\0") +
                 encode(a["ifname"], b"lane0\0"), "dev-name", errno.EEXIST),
                ("name of a lane", encode(a["dev-name"], b"rxe0\0") +
                 encode(a["ifname"], b"lane0\0"), "dev-name", errno.EEXIST),
                ("no netdev", other + encode(a["ifname"], b"nope0\0"), "ifname", errno.ENODEV),
                ("no index", other + encode(a["ifindex"], 99999), "ifindex", errno.ENODEV),
                ("netdev is taken", other + encode(a["ifname"], b"mgmt0\0"), "ifname",
                 errno.EEXIST),
                ("both", other + encode(a["ifname"], b"lane0\0") + encode(a["ifindex"], 1),
                 "ifindex", errno.EINVAL)):
            self.refused(what, op, attrs, about, {err})
        for name in (b"\0", b"a/b\0", b"a%d\0", b"%s\0", b"/\0", b"a b\0", b"a\n\0", b"\x1b[m\0",
                     b"\x7f\0", b"\xc3\xa4\0"):
            self.refused(f"name {name}", op, encode(a["dev-name"], name) +
                         encode(a["ifname"], b"lane0\0"), "dev-name", {errno.EINVAL})
        op, a = ops["param-set"], ops["param-set"]["attrs"]
        dev = encode(a["dev-name"], b"agg0\0")
        self.refused("min over max", op, dev + encode(a["ack-timeout-min"], 22) +
                     encode(a["ack-timeout-max"], 21), "ack-timeout-min",
                     {errno.EINVAL})
        self.refused("min over what is set", op, dev + encode(a["ack-timeout-min"], 31),
                     "ack-timeout-min", {errno.EINVAL})
        self.refused("max under what is set", op, dev + encode(a["ack-timeout-max"], 1),
                     "ack-timeout-max", {errno.EINVAL})
        self.refused("port with lanes", op, dev + encode(a["session-port"], 4000),
                     "session-port", {errno.EBUSY})
        # all or nothing: what is right in a request that is refused is not done
        self.refused("one of many", op, dev + encode(a["policy"], 2) + encode(a["tx-queues"], 7) +
                     encode(a["session-port"], 4000), "session-port", {errno.EBUSY})
        op = ops["qp-get"]
        for qpn in (0, 1, 0xffffff, 0x1000000, 0xffffffff):
            self.refused(f"qpn {qpn}", op, self.full(op, instead={
                "qpn": encode(op["attrs"]["qpn"], qpn)}), "qpn", {errno.ENOENT})
        op = ops["peer-get"]
        self.refused("no such peer", op, self.full(op), "gid", {errno.ENOENT})

    def random(self):
        rng = random.Random(int(os.environ.get("SEED", "1")))
        for _ in range(int(sys.argv[2])):
            op = rng.choice(list(self.spec.ops.values()))
            # what is right would be done: no new devices or lanes by chance
            if "flags" in op and rng.random() < 0.5:
                continue
            out = b""
            for _ in range(rng.randrange(5)):
                a = rng.choice(list(self.spec.sets[op["attribute-set"]].values()))
                size = rng.choice((0, 1, 2, 3, 4, 4, 4, 5, 8, 16, 64, 300))
                out += attr(a["number"] | rng.choice((0, 0, 0, NLA_F_NESTED)), rng.randbytes(size))
            out = out[:rng.choice((len(out), len(out), rng.randrange(len(out) + 1)))]
            self.nl.ask(self.nl.family, op["number"], out,
                        rng.choice((NLM_F_ACK, NLM_F_ACK, NLM_F_DUMP | NLM_F_ACK)))

    def resume(self):
        """Dumps in parts as small as the kernel makes them have all, and have it once."""
        for name, op in self.spec.ops.items():
            if "dump" not in op:
                continue
            keys = []
            for body in self.state(name, Netlink(4096)):
                vals = {k: v for k, v, _ in attrs_of(body)}
                names = {"dev-get": ("dev-index",), "param-get": ("dev-index",),
                         "lane-get": ("dev-index", "lane-id"), "qp-get": ("dev-index", "qpn"),
                         "peer-get": ("dev-index", "gid", "sgid"),
                         "stat-get": ("dev-index", "lane-id")}[name]
                keys.append(tuple(vals.get(self.spec.sets[op["attribute-set"]][n]["number"])
                                  for n in names))
            if name == "stat-get":
                # a lane may come in parts, one after the other
                keys = [k for i, k in enumerate(keys) if i == 0 or keys[i - 1] != k]
            if len(set(keys)) != len(keys):
                wrong(f"{name}: an object came twice")
            if name == "qp-get" and len(keys) < int(sys.argv[2]):
                wrong(f"{name}: {len(keys)} QPs")
            print(f"{name}: {len(keys)}")


    def flood(self):
        op = self.spec.ops["param-set"]
        for i in range(int(sys.argv[2])):
            r = self.nl.ask(self.nl.family, op["number"],
                            encode(op["attrs"]["dev-name"], b"agg0\0") +
                            encode(op["attrs"]["rnr-grace"], i % 100))
            if r.err:
                wrong(str(r))


def main():
    names = sys.argv[1].split(",") if len(sys.argv) > 1 else [""]
    if not {*names} <= {"missing", "types", "ranges", "messages", "errors", "random", "resume",
                        "flood"}:
        sys.exit(__doc__)
    tests = Tests()
    for name in names:
        before = len(problems)
        getattr(tests, name)()
        if name not in ("random", "resume", "flood"):
            tests.unchanged()
        print(f"{name}: {len(problems) - before} problems")
    print(f"{count} requests")
    print("\n".join(problems[:40]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
