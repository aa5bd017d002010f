"""List grammars written by hand in each engine's own notation, with texts as people write them."""

from __future__ import annotations

import json
import re

from benchmarks.cases import Case
from formatter_core import formats

__all__ = ["GRAMMARS"]

_JSON_KBNF = r"""
start  ::= ws value;
value  ::= (object | array | string | number | "true" | "false" | "null") ws;
object ::= "{" ws (member ("," ws member)*)? "}";
member ::= string ws ":" ws value;
array  ::= "[" ws (value ("," ws value)*)? "]";
string ::= #"\"([^\"\\\\\\x00-\\x1f]|\\\\[\"\\\\/bfnrt]|\\\\u[0-9a-fA-F]{4})*\"";
number ::= #"-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?";
ws     ::= #"[ \\t\\n\\r]*";
"""

_JSON_LARK = r"""
start: value
value: object | array | STRING | NUMBER | "true" | "false" | "null"
object: "{" (member ("," member)*)? "}"
member: STRING ":" value
array: "[" (value ("," value)*)? "]"
STRING: /"([^"\\\x00-\x1f]|\\["\\\/bfnrt]|\\u[0-9a-fA-F]{4})*"/
NUMBER: /-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/
%ignore /[ \t\n\r]+/
"""

_JSON_EBNF = r"""
root   ::= ws value
value  ::= (object | array | string | number | "true" | "false" | "null") ws
object ::= "{" ws (member ("," ws member)*)? "}"
member ::= string ws ":" ws value
array  ::= "[" ws (value ("," ws value)*)? "]"
string ::= "\"" text "\""
text   ::= "" | [^"\\\x00-\x1f] text | "\\" escape text
escape ::= ["\\/bfnrt] | "u" [0-9a-fA-F] [0-9a-fA-F] [0-9a-fA-F] [0-9a-fA-F]
number ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)? ([eE] [+-]? [0-9]+)?
ws     ::= [ \t\n\r]*
"""

_JSON_TEXTS = (
    json.dumps(
        {
            "id": "ord_81723", "created": "2024-05-03T09:12:44Z", "paid": True, "total": 128.4, "currency": "EUR",
            "customer": {"name": "Zoë Ångström", "email": "zoe@example.org", "phone": None},
            "lines": [
                {"sku": "LAMP-20", "quantity": 2, "price": 39.95, "tags": ["sale", "indoor"]},
                {"sku": "CABLE-3M", "quantity": 5, "price": 9.7, "tags": []},
            ],
            "note": "Please ring the bell twice; the dog is called \"Rex\".\nThank you!",
        },
        ensure_ascii=False, indent=2,
    ),
    json.dumps(
        {
            "type": "FeatureCollection",
            "features": [
                {
                    "type": "Feature",
                    "geometry": {"type": "Point", "coordinates": [-73.98566 + place / 7, 40.7484e0 - place / 9]},
                    "properties": {"title": f"Stop {place}", "open": place % 2 == 0},
                }
                for place in range(6)
            ],
        }
    ),
    json.dumps(
        [
            {"role": "system", "content": "You answer in one sentence, in the language of the question."},
            {"role": "user", "content": "为什么天空是蓝色的？"},
            {"role": "assistant", "content": "因为空气分子散射蓝光比散射红光更多。"},
            {"role": "user", "content": "And why are sunsets red? Explain it to my niece, who is six years old."},
        ],
        ensure_ascii=False,
    ),
    json.dumps(
        {
            "name": "fetch-weather", "version": "2.11.0", "private": False,
            "scripts": {"build": "tsc -p .", "test": "node --test ./dist/**/*.spec.js", "lint": "eslint 'src/**/*.ts'"},
            "dependencies": {"undici": "^6.19.8", "zod": "~3.23"}, "engines": {"node": ">=20"},
            "limits": [0, -1, 1e-9, 6.02e23, 1048576], "path": "C:\\tools\\weather",
        },
        indent=4,
    ),
)  # fmt: skip

_C_KBNF = r"""
start      ::= (expression ";" nl)*;
expression ::= ws assignment;
assignment ::= unary ("=" | "+=" | "-=" | "*=" | "/=" | "%=" | "&=" | "|=" | "^=" | "<<=" | ">>=") ws assignment
             | condition;
condition  ::= or ("?" ws condition ":" ws condition)?;
or         ::= and ("||" ws and)*;
and        ::= bit_or ("&&" ws bit_or)*;
bit_or     ::= bit_xor ("|" ws bit_xor)*;
bit_xor    ::= bit_and ("^" ws bit_and)*;
bit_and    ::= equal ("&" ws equal)*;
equal      ::= relation (("==" | "!=") ws relation)*;
relation   ::= shift (("<=" | ">=" | "<" | ">") ws shift)*;
shift      ::= sum (("<<" | ">>") ws sum)*;
sum        ::= product (("+" | "-") ws product)*;
product    ::= unary (("*" | "/" | "%") ws unary)*;
unary      ::= ("++" | "--" | "-" | "+" | "!" | "~" | "*" | "&" | "sizeof ") ws unary | postfix;
postfix    ::= primary (("[" expression "]" | "(" (expression ("," expression)*)? ws ")" | ("." | "->") ws name
             | "++" | "--") ws)*;
primary    ::= name ws | number ws | string ws | character ws | "(" expression ")" ws;
name       ::= #"[A-Za-z_][A-Za-z0-9_]*";
number     ::= #"0[xX][0-9a-fA-F]+[uUlL]*|[0-9]+[uUlL]*|[0-9]+\\.[0-9]*([eE][+-]?[0-9]+)?[fF]?";
string     ::= #"\"([^\"\\\\\\n]|\\\\.)*\"";
character  ::= #"'([^'\\\\\\n]|\\\\.)'";
ws         ::= #" *";
nl         ::= #"\\n?";
"""

_C_LARK = r"""
start: (assignment ";" NL?)*
assignment: unary ("=" | "+=" | "-=" | "*=" | "/=" | "%=" | "&=" | "|=" | "^=" | "<<=" | ">>=") assignment | condition
condition: or ("?" condition ":" condition)?
or: and ("||" and)*
and: bit_or ("&&" bit_or)*
bit_or: bit_xor ("|" bit_xor)*
bit_xor: bit_and ("^" bit_and)*
bit_and: equal ("&" equal)*
equal: relation (("==" | "!=") relation)*
relation: shift (("<=" | ">=" | "<" | ">") shift)*
shift: sum (("<<" | ">>") sum)*
sum: product (("+" | "-") product)*
product: unary (("*" | "/" | "%") unary)*
unary: ("++" | "--" | "-" | "+" | "!" | "~" | "*" | "&" | "sizeof ") unary | postfix
postfix: primary ("[" assignment "]" | "(" (assignment ("," assignment)*)? ")" | ("." | "->") NAME | "++" | "--")*
primary: NAME | NUMBER | STRING | CHARACTER | "(" assignment ")"
NAME: /[A-Za-z_][A-Za-z0-9_]*/
NUMBER: /0[xX][0-9a-fA-F]+[uUlL]*|[0-9]+[uUlL]*|[0-9]+\.[0-9]*([eE][+-]?[0-9]+)?[fF]?/
STRING: /"([^"\\\n]|\\.)*"/
CHARACTER: /'([^'\\\n]|\\.)'/
NL: /\n/
%ignore / +/
"""

_C_EBNF = (
    _C_KBNF[: _C_KBNF.index("number  ")]
    .replace("start      ::=", "root       ::=")
    .replace(";\n", "\n")
    .replace(" nl)*", ' "\\n"?)*')
    .replace('#"[A-Za-z_][A-Za-z0-9_]*"', "[A-Za-z_] [A-Za-z0-9_]*")
    + r"""
number     ::= "0" [xX] [0-9a-fA-F]+ [uUlL]* | [0-9]+ [uUlL]* | [0-9]+ "." [0-9]* ([eE] [+-]? [0-9]+)? [fF]?
string     ::= "\"" text "\""
text       ::= "" | [^"\\\n] text | "\\" [^\n] text
character  ::= "'" ([^'\\\n] | "\\" [^\n]) "'"
ws         ::= " "*
"""
)

_C_TEXTS = (
    (
        "hash = (hash ^ (*p++ & 0xffu)) * 16777619u;\n"
        "state->table[hash % state->capacity].count += 1;\n"
        "load = 0.75f * capacity / (used ? used : 1);\n"
    ),
    (
        'ok = fd >= 0 && (flags & O_RDWR) != 0 && strcmp(path, "/tmp/a b\\n") == 0 || errno == EINTR;\n'
        'printf("%d: %s\\n", line + 1, ok ? "fine" : strerror(errno));\n'
    ),
    "x = -b + sqrt(b * b - 4.0 * a * c);\nx /= 2.0 * a;\nroots[n++] = x;\nmask |= 1UL << (n - 1);\n",
    (
        "node->next = list->head;\nlist->head = &nodes[(i + 1) % (sizeof nodes / sizeof nodes[0])];\n"
        "total += node->value[i][j] * weights[j] >> 3;\nc = text[i] == '\\n' ? ' ' : text[i];\n"
    ),
    (
        "memcpy(buffer + offset, source->data, (length < 4096 ? length : 4096) * sizeof(*source->data));\n"
        "crc = ~crc ^ table[(crc ^ byte) & 0xFF] ^ crc >> 8;\n"
    ),
)

_SQL_KBNF = r"""
start      ::= statement ";";
statement  ::= select | insert | update | delete;
select     ::= "SELECT " ("DISTINCT ")? items " FROM " table join* where? group? order? limit?;
items      ::= "*" | item (", " item)*;
item       ::= expression (" AS " name)?;
table      ::= name (" AS " name)?;
join       ::= (" LEFT" | " INNER")? " JOIN " table " ON " condition;
where      ::= " WHERE " condition;
group      ::= " GROUP BY " column (", " column)* (" HAVING " condition)?;
order      ::= " ORDER BY " sorted (", " sorted)*;
sorted     ::= expression (" ASC" | " DESC")?;
limit      ::= " LIMIT " integer (" OFFSET " integer)?;
insert     ::= "INSERT INTO " name " (" name (", " name)* ") VALUES " row (", " row)*;
row        ::= "(" expression (", " expression)* ")";
update     ::= "UPDATE " name " SET " set (", " set)* where?;
set        ::= name " = " expression;
delete     ::= "DELETE FROM " name where?;
condition  ::= all (" OR " all)*;
all        ::= test (" AND " test)*;
test       ::= "NOT " test | "(" condition ")" | expression comparison;
comparison ::= (" = " | " <> " | " <= " | " >= " | " < " | " > ") expression | " IS " ("NOT ")? "NULL"
             | (" NOT")? " LIKE " string | (" NOT")? " IN (" (select | expression (", " expression)*) ")"
             | " BETWEEN " expression " AND " expression;
expression ::= term ((" + " | " - " | " || ") term)*;
term       ::= factor ((" * " | " / ") factor)*;
factor     ::= column | number | string | "NULL" | "TRUE" | "FALSE" | call | "(" expression ")";
call       ::= ("COUNT" | "SUM" | "AVG" | "MIN" | "MAX" | "COALESCE" | "LOWER" | "UPPER" | "DATE")
               "(" ("*" | ("DISTINCT ")? expression (", " expression)*) ")";
column     ::= name ("." name)?;
name       ::= #"[a-z_][a-z0-9_]*";
integer    ::= #"[0-9]+";
number     ::= #"-?[0-9]+(\\.[0-9]+)?";
string     ::= #"'([^']|'')*'";
"""

_SQL_LARK = re.sub(r"\n +", " ", _SQL_KBNF).replace(";\n", "\n")
_SQL_LARK = re.sub(r" +::= ", ": ", _SQL_LARK)
_SQL_LARK = re.sub(r"\b(name|integer|number|string)\b", lambda found: found[0].upper(), _SQL_LARK)
_SQL_LARK = re.sub(r'#"(.*)"', lambda found: f"/{found[1]}/", _SQL_LARK).replace("\\\\", "\\")

_SQL_EBNF = (
    _SQL_KBNF.replace("start      ::=", "root       ::=")
    .replace(";\n", "\n")
    .replace('#"[a-z_][a-z0-9_]*"', "[a-z_] [a-z0-9_]*")
    .replace('#"[0-9]+"', "[0-9]+")
    .replace(r'#"-?[0-9]+(\\.[0-9]+)?"', '"-"? [0-9]+ ("." [0-9]+)?')
    .replace("#\"'([^']|'')*'\"", '"\'" ([^\'] | "\'\'")* "\'"')
)

_SQL_TEXTS = (
    (
        "SELECT c.name, COUNT(DISTINCT o.id) AS orders, SUM(o.total) AS revenue FROM customers AS c LEFT JOIN"
        " orders AS o ON o.customer_id = c.id AND o.status <> 'cancelled' WHERE c.country IN ('DE', 'FR', "
        "'NL') AND o.created_at BETWEEN '2023-01-01' AND '2023-12-31' GROUP BY c.name HAVING SUM(o.total) > "
        "1000 ORDER BY revenue DESC, c.name LIMIT 20;"
    ),
    (
        "SELECT * FROM measurements WHERE sensor_id = 17 AND (value > 98.6 OR value IS NULL) ORDER BY "
        "taken_at DESC LIMIT 100 OFFSET 200;"
    ),
    (
        "INSERT INTO books (title, author, year, in_print) VALUES ('The Dispossessed', 'Ursula K. Le Guin', "
        "1974, TRUE), ('L''Étranger', 'Albert Camus', 1942, NULL);"
    ),
    ("UPDATE accounts SET balance = balance - 25.50, updated_at = DATE('now') WHERE id = 42 AND NOT locked = TRUE;"),
    (
        "DELETE FROM sessions WHERE last_seen < '2024-02-01' AND user_id NOT IN (SELECT id FROM users WHERE "
        "role = 'admin');"
    ),
    (
        "SELECT LOWER(u.email) AS email, COALESCE(p.title, 'none') FROM users AS u INNER JOIN profiles AS p "
        "ON p.user_id = u.id WHERE u.email NOT LIKE '%@example.com' AND p.score * 2 + 1 >= 10 / 3;"
    ),
)

_PLACES = [f"{first}{a}{b}{c}" for first in ("North ", "South ", "New ", "Old ", "") for a in (
    "Bar", "Kel", "Mor", "San", "Tor", "Val") for b in ("a", "en", "i", "o", "u") for c in (
    "burg", "dale", "field", "ham", "ton", "ville", "wick")][:1000]  # fmt: skip

_PROSE = (
    (
        "the harbour was quiet in the early morning and only the gulls were awake when the first boat came "
        "round the point with its lamps still burning although the sky behind the hills had long turned pale"
    ),
    (
        "please bring the blue folder to the meeting on thursday and ask the others to read the second "
        "chapter before we start because there will not be enough time to go through all of it again and "
        "nobody wants to stay until late in the evening as we did last week when the projector failed and the"
        " coffee ran out and half of the team had to leave for the last train while the rest of us copied the"
        " figures from the screen by hand into a notebook that was lost"
    ),
    "a short note",
    ("to whom it may concern we confirm that the goods were received in good order and that no payment is outstanding"),
)

_OPTIONS = {
    "type": "object",
    "properties": {
        f"{part}_{what}": {"type": kind}
        for part in (
            "billing", "shipping", "contact", "profile", "session", "device", "network", "storage", "search", "privacy",
            "editor", "viewer", "report", "export", "import", "backup", "audit", "alert", "theme", "locale",
        )
        for what, kind in (
            ("name", "string"), ("enabled", "boolean"), ("count", "integer"), ("limit", "number"), ("note", "string"),
            ("owner", "string"), ("retries", "integer"), ("ratio", "number"), ("visible", "boolean"), ("tag", "string"),
        )
    },
    "additionalProperties": False,
}  # fmt: skip

_OPTION_TEXTS = tuple(
    json.dumps(value)
    for value in (
        {"billing_name": "Hartmann & Sons", "billing_enabled": True, "shipping_note": "leave at the back door",
         "device_count": 3, "storage_limit": 12.5, "search_visible": False, "theme_tag": "dark"},
        {"contact_owner": "Priya", "locale_ratio": 0.5},
        {"billing_tag": "vip", "profile_name": "Lin", "profile_note": "prefers e-mail", "session_retries": 2,
         "network_enabled": False, "privacy_visible": True, "editor_name": "vim", "report_limit": 1000,
         "export_owner": "ops", "backup_count": 7, "audit_note": "kept for 90 days", "alert_retries": 0},
        {"locale_tag": "en-GB"},
        {},
    )
)  # fmt: skip

#: Grammars that are not JSON Schemas first; what a notation cannot say is None.
GRAMMARS = [
    Case("JSON", _JSON_TEXTS, own=formats.kbnf(_JSON_KBNF), lark=_JSON_LARK, ebnf=_JSON_EBNF),
    Case("C-like expressions", _C_TEXTS, own=formats.kbnf(_C_KBNF), lark=_C_LARK, ebnf=_C_EBNF),
    Case("SQL subset", _SQL_TEXTS, own=formats.kbnf(_SQL_KBNF), lark=_SQL_LARK, ebnf=_SQL_EBNF),
    Case("enum of 1,000 values", tuple(map(json.dumps, _PLACES[3::50])), schema={"enum": _PLACES}),
    Case("600 characters", _PROSE, pattern="[a-z ]{1,600}"),
    Case("200 optional properties", _OPTION_TEXTS, schema=_OPTIONS),
]
