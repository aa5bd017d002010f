"""A schema and the documents of a registry that it refers to as one document, which the native library can read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urljoin

from formatter_core.errors import FormatterError
from formatter_core.limits.turns import give_way
from formatter_core.schema.keywords import LATEST
from formatter_core.schema.load import below, draft_of, own_uri, subschemas, uri_and_fragment

__all__ = ["bundled"]

#: References and names whose meaning depends on more than the document that they stand in.
_UNUSUAL = frozenset(["$anchor", "$dynamicAnchor", "$recursiveAnchor", "$dynamicRef", "$recursiveRef"])
_URIS = frozenset(["$id", "id"])


def bundled(schema: dict[str, Any], registry: Mapping[str, Any]) -> dict[str, Any] | None:
    """The schema with the documents that it refers to among its definitions, and references that point there.

    Returns:
        a document that means the same; None if a schema has an anchor, or a URI below the root of its document, or is
        of another draft, or refers to what is not there.
    """
    try:
        draft = draft_of(schema, LATEST, "")
        return _Bundle(schema, draft, registry).made()
    except (FormatterError, _Left, RecursionError):
        return None


class _Left(Exception):
    """A schema that is left to others."""


class _Bundle:
    def __init__(self, schema: dict[str, Any], draft: int, registry: Mapping[str, Any]) -> None:
        self._draft = draft
        self._registry = {uri.rstrip("#"): each for uri, each in registry.items()}
        #: The pointers to the roots of documents in the bundle, by URI, and what their references are relative to.
        self._pointers: dict[str, str] = {"": ""}
        self._documents: dict[str, tuple[Any, str]] = {"": (schema, self._base(schema, ""))}
        self._root = schema
        self._defs = "$defs" if draft >= 2019 else "definitions"
        self._begun: set[int] = set()
        self._stack: list[tuple[Any, str]] = [(schema, "")]

    def made(self) -> dict[str, Any]:
        """See `bundled`."""
        references: dict[int, str] = {}
        while self._stack:
            give_way()
            schema, uri = self._stack.pop()
            if not isinstance(schema, dict) or id(schema) in self._begun:
                continue
            self._begun.add(id(schema))
            document, base = self._documents[uri]
            if not _UNUSUAL.isdisjoint(schema) or (schema is not document and self._has_own_uri(schema)):
                raise _Left
            if isinstance(schema.get("$ref"), str):
                references[id(schema)] = self._reference(schema["$ref"], uri, base)
            self._stack += [(child, uri) for child, _ in subschemas(schema, "")]
        own = {uri: document for uri, (document, _) in self._documents.items() if uri}
        made: dict[str, Any] = _copied(self._root, references)
        if own:
            names = {self._pointers[uri].rpartition("/")[2]: _copied(each, references) for uri, each in own.items()}
            for document in names.values():
                for name in ("$id", "id", "$schema") if isinstance(document, dict) else ():
                    document.pop(name, None)
            made[self._defs] = {**made.get(self._defs, {}), **names}
        return made

    def _reference(self, reference: str, uri: str, base: str) -> str:
        """The pointer to what a reference means, which is gone through as well."""
        target, fragment = uri_and_fragment(reference)
        if target:
            target = urljoin(base, target)
            uri = "" if target == self._documents[""][1] else self._added(target)
        fragment = unquote(fragment)
        if (fragment and not fragment.startswith("/")) or "%" in fragment:
            raise _Left
        schema = self._documents[uri][0]
        document = schema
        for step in fragment.split("/")[1:]:
            if schema is not document and isinstance(schema, dict) and self._has_own_uri(schema):
                raise _Left
            try:
                schema = below(schema, step)
            except (KeyError, ValueError, IndexError, TypeError):
                raise _Left from None
        self._stack.append((schema, uri))
        return f"#{self._pointers[uri]}{fragment}"

    def _added(self, uri: str) -> str:
        """Add a document of the registry."""
        if uri not in self._documents:
            if uri not in self._registry:
                raise _Left
            document = self._registry[uri]
            if draft_of(document, self._draft, "") != self._draft:
                raise _Left
            name, base = f"document {len(self._documents)}", self._base(document, uri)
            # What has the URI of another one could be meant by it, or not.
            if name in self._root.get(self._defs, {}) or {uri, base} & {each for _, each in self._documents.values()}:
                raise _Left
            self._pointers[uri] = f"/{self._defs}/{name}"
            self._documents[uri] = document, base
            self._stack.append((document, uri))
        return uri

    def _base(self, document: Any, uri: str) -> str:
        """What the references of a document are relative to."""
        if isinstance(document, dict) and (own := own_uri(document, uri, self._draft)) is not None:
            return own
        return uri

    def _has_own_uri(self, schema: dict[str, Any]) -> bool:
        return any(isinstance(schema.get(name), str) for name in _URIS)


def _copied(value: Any, references: Mapping[int, str]) -> Any:
    """A copy with other references, by the identities of the schemas that have them."""
    if isinstance(value, dict):
        made = {name: _copied(each, references) for name, each in value.items()}
        if id(value) in references:
            made["$ref"] = references[id(value)]
        return made
    return [_copied(each, references) for each in value] if isinstance(value, list) else value
