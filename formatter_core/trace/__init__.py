"""Record what happened at each token, show it as a page, and find where a format and a model disagree.

::

    output = completion(model, Person, scores=trace.SCORES)("Ivo is 41 years old.")
    seen = trace.trace_of(output)
    Path("trace.html").write_text(seen.to_html())           # one page, without network; a notebook shows it by itself
    for trap in seen.traps:                                 # where the mask removed most
        print(trap)
"""

from formatter_core.trace.record import SCORES, Trace, make_trace, trace_of
from formatter_core.trace.runs import Run
from formatter_core.trace.steps import Alternative, Step
from formatter_core.trace.traps import Trap

__all__ = ["SCORES", "Alternative", "Run", "Step", "Trace", "Trap", "make_trace", "trace_of"]
