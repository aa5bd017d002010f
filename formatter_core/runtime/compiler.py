"""Compile formats for a vocabulary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NoReturn, TypeVar, overload

from formatter_core.engine import EngineName, choose_engine
from formatter_core.engine.native_schema import schemas_memory
from formatter_core.engine.protocol import (
    EngineGrammar,
    GrammarEngine,
    KeepsPrograms,
    ReadsPrograms,
    SharesMemory,
)
from formatter_core.errors import (
    EngineFailed,
    FormatterError,
    InvalidArgument,
    InvalidFormat,
    InvalidGrammar,
    LimitExceeded,
)
from formatter_core.errors.arguments import as_bytes, not_picklable, shown, token_ids_of, whole_number
from formatter_core.formats import as_format
from formatter_core.formats.chat_answer import ChatAnswerFormat
from formatter_core.formats.coercion import widest_reading
from formatter_core.formats.json_schema import JsonSchemaFormat, forget_texts
from formatter_core.formats.marker_free import forget_tools
from formatter_core.formats.protocol import Format
from formatter_core.grammar import Program
from formatter_core.grammar.lazy import cached_property
from formatter_core.limits import DEFAULT_LIMITS, Limits, checked_limits
from formatter_core.limits.cache import ByteBoundedCache
from formatter_core.limits.collection import paused_collection
from formatter_core.runtime.compiled import CompiledFormat
from formatter_core.runtime.loaded import format_of, load_format
from formatter_core.runtime.lowering import Lowering
from formatter_core.runtime.raw_characters import Characters, characters_of
from formatter_core.runtime.stored import beginning_of, check_stored, foreign
from formatter_core.schema.library import forget_schemas, prepare
from formatter_core.vocabulary import Vocabulary

__all__ = ["BYTES_PER_NODE", "Compiler", "compile_to_read"]

_T = TypeVar("_T")

#: The bytes of one grammar node in Python and in the engine; measured on schemas, rounded up.
BYTES_PER_NODE = 400
#: The number of tokens at the end of a prompt that are read; a chat template that turns the reasoning off needs fewer.
_PROMPT_TOKENS = 32


class Compiler:
    """A compiler of formats for one vocabulary, each content once; threads can share it.

    Args:
        vocabulary: the tokens to compile for.
        engine: `"auto"` (the native one), `"native"`, `"kbnf"`, or your own grammar engine.
        limits: the maximum cost of one format.
        cache_bytes: the number of bytes of compiled formats kept for reuse, including their states and masks; 0 keeps
            none.

    Raises:
        EngineUnavailable: the grammar engine is not installed; the message says how to install it.
        InvalidArgument: an argument has the wrong type.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        engine: EngineName | GrammarEngine = "auto",
        limits: Limits | None = None,
        cache_bytes: int = 256 * 2**20,
    ) -> None:
        if not isinstance(vocabulary, Vocabulary):
            raise InvalidArgument(
                f"expected a Vocabulary, found {type(vocabulary).__name__}; "
                "make one with Vocabulary.from_huggingface(tokenizer) or Vocabulary(tokens, end_ids)",
                argument="vocabulary",
            )
        self.vocabulary = vocabulary
        self.limits = DEFAULT_LIMITS if limits is None else checked_limits(limits)
        self._engine = choose_engine(engine)
        self._reader = self._engine if isinstance(self._engine, ReadsPrograms) else None
        if self._reader is not None:
            prepare()
            self._load = _loads(self._reader)
        kept = whole_number(cache_bytes, "cache_bytes")
        self._cache: ByteBoundedCache[CompiledFormat] | None = None
        if kept:
            self._cache = ByteBoundedCache(kept, _size_of, grows=True)

    def __repr__(self) -> str:
        return f"<Compiler of {self.vocabulary!r}, engine {self.engine}>"

    def __copy__(self) -> Compiler:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Compiler:
        return self

    def __reduce__(self) -> NoReturn:
        raise not_picklable(self, "send its vocabulary, and make a Compiler there")

    @property
    def engine(self) -> str:
        """Return the name of the grammar engine."""
        return self._engine.name

    @overload
    def compile(self, format: type[_T] | CompiledFormat[_T]) -> CompiledFormat[_T]: ...
    @overload
    def compile(self, format: Any) -> CompiledFormat[Any]: ...
    def compile(self, format: Any) -> CompiledFormat[Any]:
        """Compile a format, or a shorthand for one: a `FormatterBuilder`, a `CompiledFormat` of the same vocabulary, a
        JSON Schema (`dict`, `bool` or JSON text), a type, a list of texts, or a pattern of Python's `re`.

        Raises:
            InvalidFormat: the format is invalid (`InvalidGrammar`, `InvalidRegex`, `InvalidSchema`).
            UnsupportedSchema: a schema keyword cannot be enforced exactly.
            UnsatisfiableSchema: no document satisfies the schema.
            UnsupportedByEngine: the grammar engine cannot enforce a part of the format.
            LimitExceeded: the format costs more than `limits` allow.
        """
        try:
            made = format if isinstance(format, JsonSchemaFormat) else as_format(format)
            if isinstance(made, CompiledFormat):
                made = self._of_same_vocabulary(made)
            if self._cache is None:
                return self._compile(made)
            key = made.key()
            compiled = self._cache.get(key, self._compile, made)
            if compiled.engine_grammar.is_usable():
                return compiled
            self._cache.forget(key, compiled)
            return self._cache.get(key, self._compile, made)
        except RecursionError as error:  # only for formats nested in formats; other code counts its depth
            raise LimitExceeded("depth", self.limits.depth, "the nesting of formats") from error

    def after_prompt(self, compiled: CompiledFormat[_T], tokens: Sequence[int]) -> CompiledFormat[_T]:
        """Return the format for the text after a prompt, whose end may have opened or ended the reasoning.

        Raises:
            InvalidArgument: the prompt opens the reasoning, but the format has none; or an argument is not a compiled
                format or not token ids.
            FormatterError: any error of `compile`.
        """
        if not isinstance(compiled, CompiledFormat):
            raise InvalidArgument(f"{shown(compiled)} is not a CompiledFormat; compile it first", argument="compiled")
        last = token_ids_of(tokens, "tokens")[-_PROMPT_TOKENS:]
        if not isinstance(compiled.format, ChatAnswerFormat):
            return compiled
        format = compiled.format.after(b"".join(map(self.vocabulary.spelled, last)).decode("utf-8", "replace"))
        return compiled if format is compiled.format else self.compile(format)

    @overload
    def from_bytes(self, data: bytes, *, type: type[_T]) -> CompiledFormat[_T]: ...
    @overload
    def from_bytes(self, data: bytes, *, type: Any = None) -> CompiledFormat[Any]: ...
    def from_bytes(self, data: bytes, *, type: Any = None) -> CompiledFormat[Any]:
        """Return the format that `CompiledFormat.to_bytes` wrote, compiled for the same vocabulary.

        Nothing is imported, called or unpickled. Data for values, captures and explanations is made from the format on
        first use. An engine that cannot read programs compiles the format anew.

        Args:
            data: the bytes of the compiled format.
            type: the Python type of the format, or several by name; see `formats.from_json`.

        Raises:
            InvalidFormat: the bytes are damaged, or are not a compiled format, or belong to another version or
                vocabulary; or they name a Python type that `type` does not give.
            LimitExceeded: the format costs more than `limits` allow.
        """
        data = as_bytes(data, "data")
        if not data.startswith(self._beginning):
            raise foreign(data, self.vocabulary)
        if self._reader is None:
            check_stored(data)
            return self.compile(format_of(data, type))
        return load_format(data, type, self._reader, self.vocabulary, self.limits)

    def memory(self) -> dict[str, int]:
        """Return the bytes that the native library takes for this vocabulary and the formats kept for reuse.

        `vocabulary` is the tables of its tokens; `automata` and `token classes` are shared by its formats (and include
        those of single formats); `workspace` is kept for the next compilation. `schemas` and `patterns` are those of
        the whole process, including programs. All other kinds are those of `CompiledFormat.memory`, summed over the
        formats that this compiler keeps. Formats that only you hold are not counted.
        """
        counted: Counter[str] = Counter()
        if isinstance(self._engine, SharesMemory):
            counted.update(self._engine.memory(self.vocabulary))
        counted.update(schemas_memory())
        for compiled in self._cache.values() if self._cache is not None else ():
            with suppress(EngineFailed):  # it is dropped at its next use
                counted.update(compiled.memory())
        del counted["program"]
        return dict(counted)

    def forget(self) -> None:
        """Free everything that is kept for later formats: formats, what they share, and schemas of the process.

        Formats that you hold keep working. The next formats take longer to compile, and so do their first masks. Python
        and the C library decide when to return memory to the system.
        """
        if self._cache is not None:
            self._cache.clear()
        if isinstance(self._engine, SharesMemory):
            self._engine.forget(self.vocabulary)
        forget_schemas()
        forget_texts()
        forget_tools()

    @cached_property
    def _characters(self) -> Characters:
        return characters_of(self.vocabulary)

    @cached_property
    def _beginning(self) -> bytes:
        return beginning_of(bytes.fromhex(self.vocabulary.fingerprint))

    def _of_same_vocabulary(self, compiled: CompiledFormat) -> Format:
        """Return the format of a `CompiledFormat`; reject one for another vocabulary."""
        own, other = self.vocabulary, compiled.vocabulary
        if own is not other and (len(own) != len(other) or own.fingerprint != other.fingerprint):
            raise InvalidFormat(
                f"the format was compiled for another vocabulary, {other!r}, and this compiler is for {own!r}; "
                "pass its `format` to compile it again"
            )
        return compiled.format

    def _compile(self, format: Format) -> CompiledFormat:
        reader, vocabulary, limits = self._reader, self.vocabulary, self.limits
        if isinstance(format, JsonSchemaFormat):  # it makes few objects, or pauses the collector itself
            lowering = Lowering(format, vocabulary, limits, self._characters)
        else:
            with paused_collection():
                lowering = Lowering(format, vocabulary, limits, self._characters)
        try:
            if reader is None:
                with paused_collection():
                    grammar = lowering.lowered.grammar.lowered
                    engine_grammar = self._engine.compile(grammar, vocabulary, limits)
            else:
                engine_grammar = self._load(lowering.program, vocabulary, limits)
        except InvalidGrammar as error:  # the grammar matches no text
            raise lowering.lowered.why_empty() or error from None
        return CompiledFormat(lowering, engine_grammar, vocabulary, self._engine.name, limits)


def compile_to_read(compiler: Compiler, given: Any) -> CompiledFormat[Any]:
    """Compile a format for reading existing texts: a shorthand for JSON then accepts all its spellings.

    If that is refused or exceeds a limit, as a schema may with keys in any order, the format is compiled unchanged.

    Raises:
        FormatterError: any error of `Compiler.compile`.
    """
    with suppress(FormatterError):
        if (wide := widest_reading(given, as_format(given))) is not None:
            return compiler.compile(wide)
    return compiler.compile(given)


def _loads(engine: ReadsPrograms) -> Callable[[Program, Vocabulary, Limits], EngineGrammar]:
    """Return the function that loads a program into an engine."""
    if isinstance(engine, KeepsPrograms):
        return engine.load_program

    def load(program: Program, vocabulary: Vocabulary, limits: Limits) -> EngineGrammar:
        data = program.data
        return engine.load(data, 0, len(data), program.regions, vocabulary, limits)

    return load


def _size_of(compiled: CompiledFormat) -> int:
    size = compiled.program.nodes * BYTES_PER_NODE
    with suppress(EngineFailed):  # it is dropped at its next use
        size += sum(compiled.memory().values())
    return size
