"""Edits the generated tables of NVIDIA's modules (`g_*_nvoc.c`) that bind a method of an object to a chip's
implementation. A table is read, changed and read again. It contains its method's name. It lists the chips of its first
branch twice, as masks over the chips' indices and as a comment; `g_chips2halspec_nvoc.c` of the same tree gives each chip's
index. Anything in another form is refused.
"""

import re

# `// NAME`, then the branch that gives the chip its index
CHIP = re.compile(
    r"^[ \t]*//[ \t]*(\w+)[ \t]*\n[ \t]*(?:else[ \t]+)?if[ \t]*\(arch == 0x[0-9a-fA-F]+ && impl == 0x[0-9a-fA-F]+(?: && hidrev == 0x[0-9a-fA-F]+)?\)"
    r"\s*\{\s*pChipHal->__nvoc_HalVarIdx = ([0-9]+);\s*\}", re.M)


def term(word, mask):
    """One mask over one word of indices, as a pattern."""
    return rf"\( \(\(chipHal_HalVarIdx >> 5\) == {word}UL\) && \(\(1UL << \(chipHal_HalVarIdx & 0x1f\)\) & 0x{mask}UL\) \)"


def table(method):
    """A complete table with two branches, as a pattern."""
    name, one = re.escape(method), term("[0-9]+", "[0-9a-f]{8}")
    return (rf"^    // {name} -- halified \(2 hals\)[^\n]*\n"
            rf"    if \((?P<terms>{one}(?: \|\|\s+{one})*)\) /\* ChipHal: (?P<chips>[\w |]+?) \*/ *\n"
            rf"    \{{\n        pThis->__{name}__ = &(?P<first>\w+);\n    \}}\n"
            rf"(?:    // default\n)?    else[^\n]*\n    \{{\n        pThis->__{name}__ = &(?P<second>\w+);\n    \}}\n")


TERMS = re.compile(term("([0-9]+)", "([0-9a-f]{8})"))
WORD = 32


class Refused(Exception):
    """A tree that is not as expected; the text says why, in one line."""


def chips(text):
    """The index of each chip."""
    found = CHIP.findall(text)
    index = {name: int(number) for name, number in found}
    if not found or len(index) != len(found) or len(set(index.values())) != len(found):
        raise Refused("the chips' indices cannot be read: none, or one twice")
    return index


def indices(terms):
    """The indices that the masks hold."""
    held = [(int(word), int(mask, 16)) for word, mask in TERMS.findall(terms)]
    if len({word for word, _ in held}) != len(held):
        raise Refused("two masks for one word")
    return {word * WORD + bit for word, mask in held for bit in range(WORD) if mask >> bit & 1}


def find(text, method):
    """The table of a method, as a match."""
    found = list(re.finditer(table(method), text, re.M))
    # Elsewhere the same method may be bound in a form that is not read here.
    places = len(re.findall(rf"^\s*// {re.escape(method)} -- ", text, re.M))
    bound = len(re.findall(rf"->__{re.escape(method)}__ =", text))
    if (len(found), places, bound) != (1, 1, 2):
        raise Refused(f"{method}: {places} tables with {bound} assignments, {len(found)} as expected; exactly one table of two branches is needed")
    return found[0]


def held(text, method, index):
    """The chips of a table's first branch, from masks and comment, which must say the same."""
    at = find(text, method)
    masks, named = indices(at["terms"]), at["chips"].split(" | ")
    unknown = [chip for chip in named if chip not in index]
    if unknown:
        raise Refused(f"{method}: its comment names {', '.join(unknown)}, for which the tree has no index")
    if masks != {index[chip] for chip in named}:
        name_of = {number: chip for chip, number in index.items()}
        say = ", ".join(name_of.get(number, f"index {number}") for number in sorted(masks))
        raise Refused(f"{method}: the masks hold {say}; the comment says {', '.join(named)}")
    return named


def condition(numbers):
    """The masks for these indices, as the tables write them."""
    words = sorted({number // WORD for number in numbers})
    mask = {word: sum(1 << number % WORD for number in numbers if number // WORD == word) for word in words}
    terms = [f"( ((chipHal_HalVarIdx >> 5) == {word}UL) && ((1UL << (chipHal_HalVarIdx & 0x1f)) & 0x{mask[word]:08x}UL) )" for word in words]
    return " ||\n        ".join(terms)


def bind(text, method, like, more, index):
    """The text with the chips `more` bound as the chip `like` is, and those of them that were not bound so before."""
    named = held(text, method, index)
    at = find(text, method)
    if like not in named or at["first"] != f"{method}_{like}":
        raise Refused(f"{method}: {like} is expected to have {method}_{like}; the table gives {at['first']} to {', '.join(named)}")
    unknown = [chip for chip in more if chip not in index]
    if unknown:
        raise Refused(f"{method}: the tree has no chip {', '.join(unknown)}")
    new = [chip for chip in more if chip not in named]
    if not new:
        return text, []
    if len(new) != len(more):
        raise Refused(f"{method}: {', '.join(chip for chip in more if chip in named)} has {method}_{like} already, {', '.join(new)} not")
    all_of = sorted({*named, *more}, key=index.get)
    terms, comment = at.span("terms"), at.span("chips")
    changed = "".join([text[:terms[0]], condition([index[chip] for chip in all_of]), text[terms[1]:comment[0]],
                       " | ".join(all_of), text[comment[1]:]])
    if held(changed, method, index) != all_of or find(changed, method)["second"] != at["second"]:
        raise Refused(f"{method}: the changed table does not read as intended")
    return changed, new
