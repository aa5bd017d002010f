"""Ten drafts of one prompt in parallel, each valid JSON: the prompt is computed once, and all advance in one decode.

python examples/llama_cpp_drafts.py                       # the small model in this folder; needs the gguf package
python examples/llama_cpp_drafts.py --model model.gguf    # any model
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from llama_cpp_chat import Person, load

from formatter_core.generation import Sampling, choose
from formatter_llama_cpp import Scheduler, create_vocabulary, llama_model

PROMPT = "Ivo is 41 years old, lives in Delhi and works as a pilot.\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a GGUF file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        llama = load(options.model, Path(folder))
        with Scheduler(llama, max_sequences=10, context_size=2048) as scheduler:
            request = scheduler.submit(
                PROMPT, samples=10, format=Person, max_tokens=120, sampling=Sampling(temperature=1.2, seed=1)
            )
            steps = sum(bool(scheduler.step()) for _ in iter(lambda: scheduler.is_idle, True))
            for sample in request.samples:
                output = sample.output
                assert output is not None
                output.raise_error()
                print(output.text if output.stopped == "end" else f"{output.text}  (cut)")
            tokens = sum(len(sample.tokens) for sample in request.samples)
            print(f"{tokens} tokens of {len(request.samples)} drafts in {steps} steps")
        # The first draft up to its job: as tokens, so that they are the ones that the model wrote.
        vocabulary, begun = create_vocabulary(llama), list(request.prompt)
        for token in request.samples[0].tokens:
            begun.append(token)
            if b"".join(vocabulary.tokens[token] or b"" for token in begun).endswith(b'"job": "'):
                break
        print("\nHow probable each job is in the first draft:")
        for score in choose(llama_model(llama), begun, ["pilot", "doctor", "teacher"]):
            print(f"  {score.text:8} {score.logprob:7.2f}  ({score.mean_logprob:.2f} a token)")
        llama.close()


if __name__ == "__main__":
    main()
