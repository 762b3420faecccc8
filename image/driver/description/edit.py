"""edit.py TREE EDITS LEVEL [FAMILY..]: edits a tree of NVIDIA's modules by name, as EDITS/edits.toml describes. It binds
methods for further chips, those of the families named, renames functions, has a function call another one, adds arguments
that a kernel's function also needs, and adds our own files. LEVEL is the patch level. Everything is read and checked before anything is written; each
edit is printed.
"""

import os
import re
import sys
import tomllib

from halspec import Refused, bind, chips
from version import number

CHIPS = "src/nvidia/generated/g_chips2halspec_nvoc.c"
KEYS = {
    "bind": {"file", "methods", "like", "chips"},
    "rename": {"file", "function", "to"},
    "call": {"file", "within", "function", "count", "to", "declare"},
    "argument": {"file", "function", "count", "value", "forms"},
    "add": {"file", "to", "list", "variable", "entry"},
}
# what is not code: comments, strings, characters; continued lines stay in one
NO_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


class Tree:
    """A tree's files as they are after the edits."""

    def __init__(self, folder):
        self.folder = folder
        self.texts = {}

    def read(self, path):
        if path not in self.texts:
            try:
                with open(os.path.join(self.folder, path), encoding="utf-8", newline="") as file:
                    self.texts[path] = file.read()
            except (OSError, UnicodeDecodeError) as error:
                raise Refused(f"{path}: {getattr(error, 'strerror', 'is not text')}") from error
        return self.texts[path]

    def has(self, path):
        return path in self.texts or os.path.exists(os.path.join(self.folder, path))

    def write(self):
        for path, text in self.texts.items():
            with open(os.path.join(self.folder, path), "w", encoding="utf-8", newline="") as file:
                file.write(text)


def code_of(text):
    """The text with spaces in place of everything that is not code."""
    return NO_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def definition(text, function):
    """The position of a function's name in its definition: outside all braces, followed by parameters and a body."""
    code = code_of(text)
    depth, places = 0, []
    for token in re.finditer(r"[{}]|\b" + re.escape(function) + r"\b", code):
        if token[0] == "{":
            depth += 1
        elif token[0] == "}":
            depth -= 1
        elif depth == 0 and re.match(r"\s*\([^(){};]*\)\s*\{", code[token.end():]):
            places.append(token.start())
    if depth != 0 or len(places) != 1:
        raise Refused(f"{function}: {len(places)} definitions can be read, expected one")
    return places[0]


def calls(text, function):
    """Each call of a function: how many arguments it has, and where its closing parenthesis is."""
    code = code_of(text)
    for call in re.finditer(rf"\b{re.escape(function)}\s*\(", code):
        depth, count = 1, 1
        for token in re.finditer(r"[(),{};]", code[call.end():]):
            depth += {"(": 1, ")": -1}.get(token[0], 0)
            count += token[0] == "," and depth == 1
            if depth == 0 or token[0] in "{};":
                break
        else:
            token = None
        if not token or depth:
            raise Refused(f"{function}: a call of it has no end")
        yield count, call.end() + token.start()


def do_argument(tree, edit):
    """Has a function's one call pass one argument more where the kernel's function takes it: which of the two forms the kernel has
    is known when it is compiled, and a third does not compile. A tree that also has a call with it supports both forms."""
    text, name, wanted = tree.read(edit["file"]), edit["function"], edit["count"]
    found = list(calls(text, name))
    if any(count == wanted for count, _ in found):
        yield f"{name}: has {wanted} arguments already"
        return
    if [count for count, _ in found] != [wanted - 1]:
        raise Refused(f"{name}: expected one call with {wanted - 1} arguments in {edit['file']}, found calls with {[count for count, _ in found]}")
    if len(edit["forms"]) != 2:
        raise Refused(f"{name}: expected two forms, without and with the argument")
    end = found[0][1]
    start = [call.start() for call in re.finditer(rf"\b{re.escape(name)}(?=\s*\()", code_of(text)[:end])][-1]
    arguments = text[text.index("(", start) + 1:end]
    is_form = [f"__builtin_types_compatible_p(__typeof__({name}), {form})" for form in edit["forms"]]
    # The call that is not chosen must compile, too: it has no function, of the right type.
    call = [f"__builtin_choose_expr({is_it}, {name}, (__typeof__({form}) *)0)({arguments}{more})"
            for is_it, form, more in zip(is_form, edit["forms"], ("", f", {edit['value']}"))]
    both = (f'({{ _Static_assert({is_form[0]} || {is_form[1]}, "{name} has another form");'
            f" __builtin_choose_expr({is_form[1]}, {call[1]}, {call[0]}); }})")
    tree.texts[edit["file"]] = text[:start] + both + text[end + 1:]
    yield f"{name}: {edit['value']} as argument {wanted} where the kernel takes it"


def do_bind(tree, edit, families):
    index = chips(tree.read(CHIPS))
    for family in (family for family in edit["chips"] if family in families):
        for method in edit["methods"]:
            tree.texts[edit["file"]], new = bind(tree.read(edit["file"]), method, edit["like"], edit["chips"][family], index)
            yield f"{method}: " + (f"as {edit['like']} also {', '.join(new)}" if new else f"bound already for {family}")


def do_rename(tree, edit):
    text, name = tree.read(edit["file"]), edit["function"]
    if re.search(rf"\b{re.escape(edit['to'])}\b", text):
        raise Refused(f"{edit['file']}: there is a {edit['to']} already")
    at = definition(text, name)
    tree.texts[edit["file"]] = text[:at] + edit["to"] + text[at + len(name):]
    yield f"{name}: its definition is called {edit['to']}"


def do_call(tree, edit):
    """Has one function call another function in place of one that it calls that many times, and declares it before."""
    text, name = tree.read(edit["file"]), edit["within"]
    if re.search(rf"\b{re.escape(edit['to'])}\b", text):
        raise Refused(f"{edit['file']}: there is a {edit['to']} already")
    at = definition(text, name)
    code = code_of(text)
    start = code.index("{", at)
    depth = 0
    for brace in re.finditer(r"[{}]", code[start:]):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            break
    end = start + brace.end()
    found = [start + call.start() for call in re.finditer(rf"\b{re.escape(edit['function'])}(?=\s*\()", code[start:end])]
    if len(found) != edit["count"]:
        raise Refused(f"{name}: expected {edit['count']} calls of {edit['function']}, found {len(found)}")
    for place in reversed(found):
        text = text[:place] + edit["to"] + text[place + len(edit["function"]):]
    # Before the line with the name, or the one above it that has the type alone
    line = text.rfind("\n", 0, at) + 1
    if not text[line:at].strip():
        line = text.rfind("\n", 0, max(line - 1, 0)) + 1
    tree.texts[edit["file"]] = f"{text[:line]}{edit['declare']}\n{text[line:]}"
    yield f"{name}: calls {edit['to']} in place of {edit['function']}, {len(found)} times"


def do_add(tree, edit, folder, level):
    listed = tree.read(edit["list"])
    if not re.search(rf"^{re.escape(edit['variable'])} \+= ", listed, re.M):
        raise Refused(f"{edit['list']} has no line '{edit['variable']} += ..'")
    if tree.has(edit["to"]):
        raise Refused(f"there is a {edit['to']} already")
    with open(os.path.join(folder, edit["file"]), encoding="utf-8") as file:
        tree.texts[edit["to"]] = file.read().replace("@LEVEL@", level)
    tree.texts[edit["list"]] = listed.rstrip("\n") + f"\n{edit['variable']} += {edit['entry']}\n"
    yield f"{edit['to']}: added"


def check(edits, tree):
    """Refuses a mistake in the description, and a tree that it is not for."""
    found = re.search(r"^NVIDIA_VERSION *= *([0-9]+(?:\.[0-9]+)*) *$", tree.read("version.mk"), re.M)
    first = edits.pop("from", "")
    if number(first) is None:
        raise Refused(f"from is '{first}'; expected the first version that the edits are for")
    if not found or number(found[1]) < number(first):
        raise Refused(f"they are for {first} and newer; the tree is {found[1] if found else 'of an unknown version'}")
    for kind, entries in edits.items():
        if kind not in KEYS:
            raise Refused(f"unknown table [[{kind}]]; allowed: {', '.join(KEYS)}")
        for entry in entries:
            for key in sorted(set(entry) ^ KEYS[kind]):
                raise Refused(f"[[{kind}]]: {'unknown' if key in entry else 'missing'} key {key}")


def edited(tree, edits, level, families):
    """Edits the texts of a tree; returns a line for each edit."""
    with open(os.path.join(edits, "edits.toml"), "rb") as file:
        wanted = tomllib.load(file)
    check(wanted, tree)
    done = [line for edit in wanted.get("bind", []) for line in do_bind(tree, edit, families)]
    done += [line for edit in wanted.get("rename", []) for line in do_rename(tree, edit)]
    done += [line for edit in wanted.get("call", []) for line in do_call(tree, edit)]
    done += [line for edit in wanted.get("argument", []) for line in do_argument(tree, edit)]
    done += [line for edit in wanted.get("add", []) for line in do_add(tree, edit, edits, level)]
    if not re.fullmatch(r"[\w.-]+", level):
        raise Refused(f"the patch level is '{level}'; allowed: letters, digits, '.', '_' and '-'")
    return done


def main(folder, edits, level, *families):
    tree = Tree(folder)
    try:
        done = edited(tree, edits, level, families)
    except (Refused, OSError, tomllib.TOMLDecodeError) as why:
        sys.exit(f"firstlight: error: edits {os.path.basename(edits)}: {why}")
    tree.write()
    print("\n".join(done))


if __name__ == "__main__":
    main(*sys.argv[1:])
