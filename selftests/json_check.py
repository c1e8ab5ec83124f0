#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""
Holds JSON from rdma-agg against the netlink specification.

  rdma-agg -j dev show | json_check.py dev-get
  rdma-agg monitor     | json_check.py --lines

An array of replies to the operation that is named, or, with --lines, what the
monitor prints. Every key must be an attribute of the reply, and its value of
the attribute's type, within its range or enum; --need wants attributes in
every object, --min a number of objects. Prints what is wrong, exit code 1.
"""

import argparse
import ipaddress
import json
import os
import re
import sys

import yaml

# The loader in C, where there is one: ten times as fast.
Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

INTEGERS = {
    "u8": (0, 2**8 - 1), "u16": (0, 2**16 - 1), "u32": (0, 2**32 - 1), "u64": (0, 2**64 - 1),
    "s32": (-2**31, 2**31 - 1),
}

problems = []


def wrong(where, what):
    problems.append(f"{where}: {what}")


class Spec:
    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.yaml = yaml.load(file, Loader)
        self.enums = {d["name"]: [e if isinstance(e, str) else e["name"] for e in d["entries"]]
                      for d in self.yaml["definitions"] if d["type"] == "enum"}
        self.sets = {s["name"]: {a["name"]: a for a in s["attributes"]}
                     for s in self.yaml["attribute-sets"]}
        self.ops = {o["name"]: o for o in self.yaml["operations"]["list"]}

    def reply(self, name):
        """The attribute set of an operation, and what of it a reply may have."""
        op = self.ops[name]
        if "notify" in op:
            op = self.ops[op["notify"]]
        return op["attribute-set"], op["do"]["reply"]["attributes"]

    def check_value(self, attr, value, where):
        kind = attr["type"]
        if "enum" in attr:
            if value not in self.enums[attr["enum"]]:
                wrong(where, f"{value!r} is not in enum {attr['enum']}")
        elif attr.get("display-hint") == "ipv6":
            try:
                ipaddress.IPv6Address(value)
            except ValueError:
                wrong(where, f"{value!r} is no address")
        elif attr.get("display-hint") == "hex":
            digits = int(kind[1:]) // 4
            if not isinstance(value, str) or not re.fullmatch(f"0x[0-9a-f]{{{digits}}}", value):
                wrong(where, f"{value!r} is no {kind} in hex")
        elif kind in INTEGERS:
            low, high = INTEGERS[kind]
            low = attr.get("checks", {}).get("min", low)
            high = attr.get("checks", {}).get("max", high)
            if isinstance(value, bool) or not isinstance(value, int):
                wrong(where, f"{value!r} is no number")
            elif not low <= value <= high:
                wrong(where, f"{value} is not in {low}..{high}")
        elif kind == "string":
            if not isinstance(value, str):
                wrong(where, f"{value!r} is no string")
            elif len(value.encode()) > attr.get("checks", {}).get("max-len", 1 << 16):
                wrong(where, f"{value!r} is too long")
        elif kind == "nest":
            names = self.sets[attr["nested-attributes"]]
            self.check_object(attr["nested-attributes"], names, names, value, where)
        else:
            wrong(where, f"no idea of type {kind}")

    def check_object(self, set_name, allowed, need, obj, where):
        if not isinstance(obj, dict):
            wrong(where, f"{obj!r} is no object")
            return
        for key, value in obj.items():
            attr = self.sets[set_name].get(key)
            here = f"{where}.{key}"
            if attr is None or key not in allowed:
                wrong(here, "not an attribute of this reply")
            elif attr.get("multi-attr"):
                if not isinstance(value, list) or not value:
                    wrong(here, "no list, or an empty one")
                else:
                    for i, one in enumerate(value):
                        self.check_value(attr, one, f"{here}[{i}]")
            else:
                self.check_value(attr, value, here)
        for key in need:
            if key not in obj and self.sets[set_name][key]["type"] != "pad":
                wrong(where, f"no {key}")


def no_duplicates(pairs):
    keys = [k for k, _ in pairs]
    for key in set(keys):
        if keys.count(key) > 1:
            wrong("JSON", f"key {key} twice in one object")
    return dict(pairs)


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("op", nargs="?", help="an operation of the specification")
    parser.add_argument("--lines", action="store_true", help="output of rdma-agg monitor")
    parser.add_argument("--need", default="", help="attributes, comma separated; \"all\" for all")
    parser.add_argument("--min", type=int, default=0, help="least number of objects")
    parser.add_argument("--spec",
                        default=f"{here}/../Documentation/netlink/specs/rdma_agg.yaml")
    args = parser.parse_args()
    spec = Spec(args.spec)

    if args.lines:
        count = 0
        for number, line in enumerate(sys.stdin, 1):
            obj = json.loads(line, object_pairs_hook=no_duplicates)
            count += 1
            name = obj.get("name")
            if name == "overrun" and len(obj) == 1:
                continue
            if name not in spec.ops or set(obj) != {"name", "msg"}:
                wrong(f"line {number}", f"neither a reply nor a notice: {line.strip()}")
                continue
            set_name, allowed = spec.reply(name)
            need = ["dev-index", "dev-name"]
            if name.endswith("-ntf"):
                if "event" in spec.sets[set_name]:
                    need.append("event")
            else:
                allowed = [a for a in allowed if a not in ("event", "old-state")]
            spec.check_object(set_name, allowed, need, obj["msg"], f"line {number}")
    else:
        set_name, allowed = spec.reply(args.op)
        allowed = [a for a in allowed if a not in ("event", "old-state")]
        need = ["dev-index", "dev-name"]
        if args.need == "all":
            need = allowed
        elif args.need:
            need += args.need.split(",")
        objs = json.load(sys.stdin, object_pairs_hook=no_duplicates)
        if not isinstance(objs, list):
            wrong("JSON", "no array")
            objs = []
        count = len(objs)
        for i, obj in enumerate(objs):
            spec.check_object(set_name, allowed, need, obj, f"[{i}]")
    if count < args.min:
        wrong("JSON", f"{count} objects, not {args.min}")
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
