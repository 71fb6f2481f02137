#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Brings promtool, which says whether metrics and rules are well-formed, into the lab's cache. Its package would start
a server when installed; here, nothing is installed."""

import argparse
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lab"))
import labcache  # noqa: E402
from labcache import LabError, say  # noqa: E402


def find_packages(_cache):
    packages = labcache.parse_uris(labcache.apt(["apt-get", *labcache.APT_OPTIONS, "--print-uris", "download",
                                                 "prometheus"]))
    if not packages:
        raise LabError("apt names no file for prometheus")
    return packages


def take(unpacked, new):
    shutil.copy(os.path.join(unpacked, "usr", "bin", "promtool"), new)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fetch", action="store_true", help="bring it there; else: print the folder that it is in")
    parser.add_argument("--cache", metavar="DIR", help="the lab's cache")
    options = parser.parse_args()
    cache = os.path.abspath(options.cache) if options.cache else labcache.default_cache()
    try:
        if options.fetch:
            labcache.fetch_aside(cache, "promtool", find_packages, take)
        else:
            print(labcache.find_aside(cache, "promtool")[0])
        return 0
    except LabError as error:
        say(f"promtool: {error}")
        return error.status
    except (OSError, ValueError, KeyError) as error:
        say(f"promtool: not in the lab's cache: {error}")
        return 77
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
