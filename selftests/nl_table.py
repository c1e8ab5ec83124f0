#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""
The requests of the netlink family, for fuzz_nl.c, as lines of words:

  op NUMBER NAME DUMP ADMIN ATTRIBUTE...    two flags (0, 1), and what it may have
  attr NUMBER NAME TYPE MIN MAX LENGTH      of the op above: its attributes, and
                                            all others of its set
"""

import os

import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
SIZES = {"u8": 1, "u16": 2, "u32": 4, "u64": 8, "s32": 4}


def main():
    with open(f"{HERE}/../Documentation/netlink/specs/rdma_agg.yaml", encoding="utf-8") as f:
        spec = yaml.load(f, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    enums = {d["name"]: len(d["entries"]) for d in spec["definitions"] if "entries" in d}
    sets = {}
    for one in spec["attribute-sets"]:
        for number, a in enumerate(one["attributes"], 1):
            a["number"] = number
        sets[one["name"]] = one["attributes"]
    for number, op in enumerate(spec["operations"]["list"], 1):
        if "do" not in op:
            continue
        of_set = sets[op["attribute-set"]]
        names = op["do"]["request"]["attributes"]
        print("op", number, op["name"], int("dump" in op), int("flags" in op),
              *[a["number"] for a in of_set if a["name"] in names])
        for a in of_set:
            checks = a.get("checks", {})
            size = SIZES.get(a["type"], 0)
            top = 256 ** size - 1 if size else 0
            high = enums[a["enum"]] - 1 if "enum" in a else checks.get("max", top)
            print("attr", a["number"], a["name"], a["type"], checks.get("min", 0),
                  min(high, 0xffffffff), size or checks.get("exact-len", checks.get("max-len", 64)))


if __name__ == "__main__":
    main()
