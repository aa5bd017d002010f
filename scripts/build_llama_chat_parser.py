#!/usr/bin/env python3
"""Build llama.cpp's parser of chat answers as a program that reads requests from its standard input.

    python scripts/build_llama_chat_parser.py SOURCE LIBRARIES

SOURCE is the unpacked source distribution of llama-cpp-python, whose package does not expose the parser. LIBRARIES is a
folder with the libraries of the same release: `dev.py` keeps one for the environment `llama_cpp`. The program is
SOURCE/llama_chat_parser, for `judge_layouts.py --llama-cpp SOURCE`. About five minutes of one processor.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

#: What of `common` reads answers; the linker leaves out what this does not call.
SOURCES = (
    "json*.cpp", "log.cpp", "unicode.cpp", "trie.cpp", "peg-parser.cpp", "chat*.cpp", "common.cpp", "jinja/*.cpp",
    "parsers/*.cpp",
)  # fmt: skip
SETTINGS = ["-O1", "-std=c++17", "-DNDEBUG", "-ffunction-sections", "-fdata-sections"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("source", type=Path)
    parser.add_argument("libraries", type=Path)
    options = parser.parse_args()
    tree, libraries = options.source / "vendor" / "llama.cpp", options.libraries.absolute()
    folders = [f"-I{tree / name}" for name in ("common", "include", "ggml/include", "vendor", "src")]
    files = [path for pattern in SOURCES for path in sorted((tree / "common").glob(pattern))]
    objects = options.source / "llama_chat_parser.objects"
    objects.mkdir(exist_ok=True)
    made = []
    for file in [*files, Path(__file__).with_suffix(".cpp").with_stem("llama_chat_parser")]:
        made.append(objects / f"{file.parent.name}-{file.stem}.o")
        if not made[-1].exists() or file.parent == Path(__file__).parent:
            subprocess.run(["c++", *SETTINGS, *folders, "-c", str(file), "-o", str(made[-1])], check=True)
    link = ["-Wl,--gc-sections", "-Wl,--unresolved-symbols=ignore-in-object-files", f"-Wl,-rpath,{libraries}"]
    link += [f"-L{libraries}", "-lllama", "-lggml", "-lggml-base", "-lpthread"]
    program = options.source / "llama_chat_parser"
    subprocess.run(["c++", *map(str, made), "-o", str(program), *link], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
