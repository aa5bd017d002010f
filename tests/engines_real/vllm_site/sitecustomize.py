"""Found by every Python process of a test of vLLM, because this folder is on their PYTHONPATH.

`$FORMATTER_TEST_HIDE` names packages that are to count as absent: the repack of vLLM for CPUs comes with builds of
torchvision that do not load beside a torch for CPUs, and neither vLLM nor these tests need them.
"""

import os
import sys

for _name in filter(None, os.environ.get("FORMATTER_TEST_HIDE", "").split(",")):
    sys.modules[_name] = None  # type: ignore[assignment]
