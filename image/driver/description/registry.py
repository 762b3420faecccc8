"""Translates the registry keys of NVIDIA's kernel module from the names of their values to numbers, with the header
nvrm_registry.h of a tree. The same number has another meaning in another version (RMForceP2PType=2 is BAR1 until 570
and NVLink from 575), so no number is written here: the header of the tree that is built gives it.
"""

import re

# `#define NAME VALUE`, with or without a comment behind it
DEFINE = re.compile(r"^[ \t]*#define[ \t]+(\w+)[ \t]+(.+?)[ \t]*(?:/[/*].*)?$", re.M)
NUMBER = re.compile(r"\(?(0[xX][0-9a-fA-F]+|[0-9]+)[uUlL]*\)?")
BITS = re.compile(r"([0-9]+):([0-9]+)")


class Unknown(Exception):
    """A key, field or value that the header does not have."""


class Registry:
    """The keys of one header."""

    def __init__(self, text):
        self.defines = dict(DEFINE.findall(text))
        self.macros = {value[1:-1]: name for name, value in self.defines.items() if re.fullmatch(r'"[^"]*"', value)}

    def number(self, macro, seen=()):
        """A macro's value; None if it has none. A macro may name another one."""
        value = self.defines.get(macro, "")
        if found := NUMBER.fullmatch(value):
            digits = found[1]
            return int(digits, 16) if digits[:2].lower() == "0x" else int(digits)
        if value in self.defines and value not in seen:
            return self.number(value, (*seen, macro))
        return None

    def bits(self, macro):
        """The lowest bit and the width of a field; None if the macro is not a field."""
        found = BITS.fullmatch(self.defines.get(macro, ""))
        high, low = (int(found[1]), int(found[2])) if found else (0, 1)
        return (low, high - low + 1) if high >= low else None

    def values(self, macro):
        """The values that have names: name -> number. Names that belong to a longer key's macro are left out."""
        longer = [other for other in self.macros.values() if other.startswith(f"{macro}_")]
        names = [name for name in self.defines if name.startswith(f"{macro}_")
                 and not any(name == other or name.startswith(f"{other}_") for other in longer)]
        found = {name[len(macro) + 1:]: self.number(name) for name in names}
        return {name: number for name, number in found.items() if number is not None}

    def fields(self, macro):
        """The names of a key's fields."""
        names = [name[len(macro) + 1:] for name in self.defines if name.startswith(f"{macro}_")]
        return [name for name in names if self.bits(f"{macro}_{name}")]

    def named(self, macro, what, name):
        """The number of a value; `what` names its key or field."""
        known = self.values(macro)
        if name in known:
            return known[name]
        allowed = ", ".join(f"{value} ({number})" for value, number in known.items()) or "a number: it has no names"
        if isinstance(name, int) and name in known.values():
            means = ", ".join(value for value, number in known.items() if number == name)
            raise Unknown(f"{what}={name} means {means} there; write the name: {allowed}")
        raise Unknown(f"{what} has no value {name} there; allowed: {allowed}")

    def value(self, key, wanted):
        """The number of a key: `wanted` is a value's name, a table of fields and their values' names, or, where the header has
        no names for this key, a number."""
        macro = self.macros.get(key)
        if macro is None:
            raise Unknown(f"the header has no key {key}")
        if isinstance(wanted, dict):
            return sum(self.field(macro, key, field, name) for field, name in wanted.items())
        fields = self.fields(macro)
        if fields:
            raise Unknown(f"{key} is made of fields there; write them by name: {', '.join(fields)}")
        if isinstance(wanted, int) and not isinstance(wanted, bool) and not self.values(macro):
            return wanted
        return self.named(macro, key, wanted)

    def field(self, macro, key, field, name):
        bits = self.bits(f"{macro}_{field}")
        if not bits:
            fields = ", ".join(self.fields(macro)) or "none"
            raise Unknown(f"{key} has no field {field} there; its fields: {fields}")
        (low, width), number = bits, self.named(f"{macro}_{field}", f"{key}.{field}", name)
        if number >> width:
            raise Unknown(f"{key}.{field}={name} is {number} there, and the field has {width} bits")
        return number << low

    def words(self, keys):
        """The keys in the form of the parameter NVreg_RegistryDwords."""
        return ";".join(f"{key}={self.value(key, wanted)}" for key, wanted in keys.items())

    def check_words(self, words):
        """Refuses words in the form of the parameter, unless the header has no names for their values."""
        for word in filter(None, (word.strip() for word in words.split(";"))):
            key, _, number = word.partition("=")
            if not NUMBER.fullmatch(number):
                raise Unknown(f"NVreg_RegistryDwords: '{word}' is not KEY=NUMBER")
            self.value(key, int(number, 0))
