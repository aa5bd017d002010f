#!/usr/bin/env python3
"""Finish the environment of the answers: llama-cpp-python as `build_llama_cpp.py` builds it, without older releases.

python scripts/finish_answers.py --cache FOLDER --python ENVIRONMENT/bin/python
"""

from __future__ import annotations

import importlib
import sys

if __name__ == "__main__":
    builder = importlib.import_module("build_llama_cpp")  # beside this file
    vars(builder)["OLDER"] = ()
    sys.exit(builder.main(sys.argv[1:]))
