"""Make tasks with known answers for a small chat model: a question, the format of its answer, and the answer.

All are made here, from tables and a seed. A task of the kinds `choice`, `holes` and `regex` is made of parts, so that
each library gets it in its own notation; all other tasks have a JSON Schema.
"""

from __future__ import annotations

import dataclasses
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

__all__ = ["KINDS", "Part", "Task", "tasks"]


@dataclasses.dataclass(frozen=True)
class Part:
    """Describe a piece of a text: one of `options`, or `least` to `most` characters of a class such as `a-z`."""

    options: tuple[str, ...] = ()
    characters: str = ""
    least: int = 1
    most: int = 1
    is_answer: bool = False

    def regex(self) -> str:
        if self.options:
            found = "|".join(map(re.escape, self.options))
            return f"({found})" if self.is_answer else f"(?:{found})"
        found = f"[{self.characters}]{{{self.least},{self.most}}}"
        return f"({found})" if self.is_answer else found

    def gbnf(self) -> str:
        if self.options:
            return "(" + " | ".join(json.dumps(option) for option in self.options) + ")"
        return f"[{self.characters}]{{{self.least},{self.most}}}"


@dataclasses.dataclass(frozen=True)
class Task:
    """Hold a question and the format of its answer.

    Attributes:
        request: without a hint of the format; `hint`: says what the format is.
        schema: a JSON Schema, or None, where `parts` are the format.
        answer: the value: a JSON document, or the texts of the parts that are answers. Fields that are absent from it
            are not judged.
    """

    name: str
    kind: str
    request: str
    answer: Any
    schema: dict[str, Any] | None = None
    parts: tuple[Part, ...] = ()

    def prompt(self, *, hint: bool) -> str:
        if not hint:
            return self.request if self.schema is None else f"{self.request}\nAnswer in JSON."
        if self.schema is not None:
            return f"{self.request}\nAnswer in JSON that fits this schema: {json.dumps(self.schema)}"
        if len(self.parts) == 1 and self.parts[0].options:
            return f"{self.request}\nAnswer with one of these: {', '.join(self.parts[0].options)}"
        return f"{self.request}\nThe answer fits this regular expression: {self.regex()}"

    def regex(self) -> str:
        return "".join(part.regex() for part in self.parts)

    def gbnf(self) -> str:
        return "root ::= " + " ".join(part.gbnf() for part in self.parts)


NAMES = [
    "Ada", "Ben", "Clara", "David", "Emma", "Felix", "Grace", "Hugo", "Irene", "Jack", "Karen", "Liam", "Maria",
    "Noah", "Olivia", "Paul", "Ruth", "Simon",
]  # fmt: skip
SURNAMES = [
    "Smith", "Brown", "Miller", "Davis", "Wilson", "Taylor", "Moore", "Clark", "Lewis", "Walker", "Young", "King",
    "Wright", "Green", "Baker",
]  # fmt: skip
CITIES = [
    "Paris", "London", "Berlin", "Madrid", "Rome", "Vienna", "Oslo", "Dublin", "Lisbon", "Prague", "Warsaw",
    "Athens", "Boston", "Chicago",
]  # fmt: skip
JOBS = ["teacher", "nurse", "pilot", "lawyer", "engineer", "baker", "doctor", "farmer", "painter", "driver"]
ITEMS = ["apples", "pears", "lamps", "chairs", "books", "pens", "shirts", "cups", "plates", "clocks", "bottles", "keys"]
COLORS = ["red", "green", "blue", "black", "white", "yellow"]
ANIMALS = {"spider": 8, "dog": 4, "cat": 4, "hen": 2, "ant": 6, "horse": 4, "bee": 6, "cow": 4, "duck": 2, "snake": 0}
CAPITALS = {
    "France": "Paris", "Germany": "Berlin", "Spain": "Madrid", "Italy": "Rome", "Japan": "Tokyo", "China": "Beijing",
    "Egypt": "Cairo", "Norway": "Oslo", "Austria": "Vienna", "Greece": "Athens", "Russia": "Moscow", "Cuba": "Havana",
}  # fmt: skip
PRAISE = [
    "I love this {item}, it works perfectly and looks great.",
    "Fantastic {item}! Best thing that I have bought this year.",
    "The {item} arrived early and I am very happy with it.",
    "Wonderful quality, I will buy this {item} again.",
]
BLAME = [
    "Terrible {item}. It broke after one day and I want my money back.",
    "I hate this {item}, it is ugly and does not work.",
    "The {item} is a complete waste of money, very disappointed.",
    "Awful. The {item} came late and was damaged.",
]
THINGS = ["phone", "lamp", "kettle", "jacket", "camera", "radio", "chair", "blender", "clock", "backpack"]
MONTHS = [
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
]  # fmt: skip

TEXT = {"type": "string", "maxLength": 40}
WHOLE = {"type": "integer", "minimum": 0, "maximum": 1000}


def _object(properties: dict[str, Any], optional: Sequence[str] = ()) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def _person(rng: random.Random) -> Task:
    name, age, city, job = rng.choice(NAMES), rng.randint(18, 90), rng.choice(CITIES), rng.choice(JOBS)
    request = f"Extract the person: {name} is {age} years old, lives in {city} and works as a {job}."
    schema = _object({"name": TEXT, "age": WHOLE, "city": TEXT, "job": TEXT})
    return Task("", "flat", request, {"name": name, "age": age, "city": city, "job": job}, schema)


def _product(rng: random.Random) -> Task:
    item, price, color = rng.choice(THINGS), rng.randint(5, 300) + rng.choice((0.0, 0.5, 0.99)), rng.choice(COLORS)
    request = f"Extract the product: the {color} {item} costs {price:.2f} dollars and is in stock."
    schema = _object(
        {"product": TEXT, "color": {"enum": COLORS}, "price": {"type": "number"}, "in_stock": {"type": "boolean"}}
    )
    return Task("", "amounts", request, {"color": color, "price": price, "in_stock": True}, schema)


def _order(rng: random.Random) -> Task:
    name, surname, city = rng.choice(NAMES), rng.choice(SURNAMES), rng.choice(CITIES)
    item, count = rng.choice(ITEMS), rng.randint(2, 40)
    request = f"Extract the order: {name} {surname} from {city} orders {count} {item}."
    customer = _object({"first_name": TEXT, "last_name": TEXT, "city": TEXT})
    schema = _object({"customer": customer, "item": TEXT, "quantity": WHOLE})
    answer = {
        "customer": {"first_name": name, "last_name": surname, "city": city},
        "item": item,
        "quantity": count,
    }
    return Task("", "nested", request, answer, schema)


def _list(rng: random.Random) -> Task:
    items = rng.sample(ITEMS, 3)
    request = f"List what to buy: we need {items[0]}, {items[1]} and {items[2]}."
    schema = _object({"items": {"type": "array", "items": TEXT, "minItems": 1, "maxItems": 6}})
    return Task("", "lists", request, {"items": items}, schema)


def _optional(rng: random.Random) -> Task:
    name, city = rng.choice(NAMES), rng.choice(CITIES)
    mail = f"{name.lower()}@example.com"
    request = f"Extract the contact: {name} lives in {city}, e-mail {mail}."
    schema = _object({"name": TEXT, "email": TEXT, "phone": TEXT, "city": TEXT}, ["email", "phone", "city"])
    return Task("", "optional", request, {"name": name, "email": mail}, schema)


def _date(rng: random.Random) -> Task:
    year, month, day = rng.randint(1950, 2030), rng.randint(1, 12), rng.randint(1, 28)
    name = rng.choice(NAMES)
    request = f"Extract the event: {name}'s concert takes place on {MONTHS[month - 1]} {day}, {year}."
    schema = _object({"event": TEXT, "date": {"type": "string", "format": "date"}})
    return Task("", "dates", request, {"date": f"{year}-{month:02}-{day:02}"}, schema)


def _sentiment(rng: random.Random) -> Task:
    is_good = rng.random() < 0.5
    review = rng.choice(PRAISE if is_good else BLAME).format(item=rng.choice(THINGS))
    schema = _object({"sentiment": {"enum": ["positive", "negative"]}})
    answer = {"sentiment": "positive" if is_good else "negative"}
    return Task("", "classification", f"What is the sentiment of this review? {review}", answer, schema)


def _rating(rng: random.Random) -> Task:
    is_good = rng.random() < 0.5
    review = rng.choice(PRAISE if is_good else BLAME).format(item=rng.choice(THINGS))
    schema = _object(
        {
            "sentiment": {"enum": ["positive", "negative"]},
            "reason": {"type": "string", "maxLength": 120},
            "confidence": {"type": "number", "minimum": 0, "maximum": 1},
        }
    )
    answer = {"sentiment": "positive" if is_good else "negative"}
    return Task("", "rating", f"Rate this review and give a reason: {review}", answer, schema)


def _legs(rng: random.Random) -> Task:
    animal = rng.choice(sorted(ANIMALS))
    schema = {"type": "integer"}
    return Task("", "number", f"How many legs has a {animal}? Answer with a number.", ANIMALS[animal], schema)


def _sum(rng: random.Random) -> Task:
    one, other, name = rng.randint(1, 9), rng.randint(1, 9), rng.choice(NAMES)
    item = rng.choice(ITEMS)
    request = f"{name} has {one} {item} and buys {other} more. How many {item} has {name} now?"
    schema = _object({"reasoning": {"type": "string", "maxLength": 160}, "answer": {"type": "integer"}})
    return Task("", "reasoning", request, {"answer": one + other}, schema)


def _call(rng: random.Random) -> Task:
    city, unit = rng.choice(CITIES), rng.choice(["celsius", "fahrenheit"])
    weather = _object(
        {
            "name": {"const": "get_weather"},
            "arguments": _object({"city": TEXT, "unit": {"enum": ["celsius", "fahrenheit"]}}),
        }
    )
    clock = _object({"name": {"const": "get_time"}, "arguments": _object({"city": TEXT})})
    if rng.random() < 0.5:
        request = f"Call the tool: what is the weather in {city}, in {unit}?"
        answer: dict[str, Any] = {"name": "get_weather", "arguments": {"city": city, "unit": unit}}
    else:
        request = f"Call the tool: what time is it in {city}?"
        answer = {"name": "get_time", "arguments": {"city": city}}
    return Task("", "tool call", request, answer, {"anyOf": [weather, clock]})


def _choice(rng: random.Random) -> Task:
    country = rng.choice(sorted(CAPITALS))
    options = [CAPITALS[country], *rng.sample(sorted(set(CAPITALS.values()) - {CAPITALS[country]}), 3)]
    rng.shuffle(options)
    request = f"What is the capital of {country}? {', '.join(options[:-1])} or {options[-1]}?"
    return Task("", "choice", request, (CAPITALS[country],), None, (Part(tuple(options), is_answer=True),))


def _holes(rng: random.Random) -> Task:
    name, age, city = rng.choice(NAMES), rng.randint(18, 90), rng.choice(CITIES)
    request = f"Write a card for this person: {name} is {age} years old and lives in {city}."
    parts = (
        Part(("Name: ",)),
        Part(characters="A-Za-z", least=1, most=12, is_answer=True),
        Part((", age ",)),
        Part(characters="0-9", least=1, most=3, is_answer=True),
        Part((", city ",)),
        Part(characters="A-Za-z", least=1, most=12, is_answer=True),
        Part((".",)),
    )
    return Task("", "holes", request, (name, str(age), city), None, parts)


def _regex(rng: random.Random) -> Task:
    code = f"{rng.randint(100, 999)}-{rng.randint(1000, 9999)}"
    request = f"What is the phone number? You can call {rng.choice(NAMES)} at {code} after six."
    parts = (
        Part(characters="0-9", least=3, most=3, is_answer=True),
        Part(("-",)),
        Part(characters="0-9", least=4, most=4, is_answer=True),
    )
    return Task("", "regex", request, tuple(code.split("-")), None, parts)


#: For each kind a function that makes a task, and their number among 300.
KINDS: dict[str, tuple[Callable[[random.Random], Task], int]] = {
    "flat": (_person, 45),
    "amounts": (_product, 25),
    "nested": (_order, 30),
    "lists": (_list, 25),
    "optional": (_optional, 20),
    "dates": (_date, 20),
    "classification": (_sentiment, 30),
    "rating": (_rating, 25),
    "number": (_legs, 10),
    "reasoning": (_sum, 20),
    "tool call": (_call, 20),
    "choice": (_choice, 12),
    "holes": (_holes, 10),
    "regex": (_regex, 8),
}


def tasks(count: int, seed: int = 1) -> list[Task]:
    """Return the first `count` tasks of 300, in which all kinds take turns."""
    made = {kind: _made(kind, seed) for kind in KINDS}
    left = {kind: share for kind, (_, share) in KINDS.items()}
    found: list[Task] = []
    while len(found) < count and any(left.values()):
        for kind in KINDS:
            if left[kind] and len(found) < count:
                left[kind] -= 1
                found.append(next(made[kind]))
    return found


def _made(kind: str, seed: int) -> Iterator[Task]:
    number = 0
    while True:
        number += 1
        rng = random.Random(f"{kind} {seed} {number}")
        yield dataclasses.replace(KINDS[kind][0](rng), name=f"{kind} {number}")
