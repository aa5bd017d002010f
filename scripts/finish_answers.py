#!/usr/bin/env python3
"""Finish the environment of the answers: llama-cpp-python as `build_llama_cpp.py` builds it, without older releases.

python scripts/finish_answers.py --cache FOLDER --python ENVIRONMENT/bin/python
"""

from __future__ import annotations

import sys

import build_llama_cpp

if __name__ == "__main__":
    build_llama_cpp.OLDER = ()
    sys.exit(build_llama_cpp.main(sys.argv[1:]))
