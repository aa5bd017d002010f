"""Found by every Python process of a test of vLLM, because this folder is on their PYTHONPATH.

`$FORMATTER_TEST_HIDE` names packages that are to count as absent: the repack of vLLM for CPUs comes with builds of
torchvision that do not load beside a torch for CPUs, and neither vLLM nor these tests need them. And the repack goes by
another name than vLLM, which looks up its own version to find out that it was built for CPUs.
"""

import os
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

for _name in filter(None, os.environ.get("FORMATTER_TEST_HIDE", "").split(",")):
    sys.modules[_name] = None  # type: ignore[assignment]

try:
    version("vllm")
except PackageNotFoundError:
    sys.path.append(str(Path(__file__).with_name("repack")))
