//! The driver build's edits by name (`image/driver/description/edit.py`), tested on small tables made here: the masks follow
//! the tree's own indices, and a tree that is not exactly as expected is refused, with nothing written.

use harness::workspace;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

const CHIPS: &str = "src/nvidia/generated/g_chips2halspec_nvoc.c";
const TABLES: &str = "src/nvidia/generated/g_thing_nvoc.c";
const CODE: &str = "src/thing.c";
const LIST: &str = "src/list.mk";

/// The source that assigns each chip its index. The indices of `INDEX` span two mask words of 32 bits.
fn chips(index: &[(&str, u32)]) -> String {
    let branch = |(at, (name, number)): (usize, &(&str, u32))| {
        let first = if at == 0 { "" } else { "else " };
        format!(
            "    // {name}\n    {first}if(arch == 0x1A && impl == 0x{at:X})\n    {{\n        pChipHal->__nvoc_HalVarIdx = {number};\n    }}\n"
        )
    };
    index.iter().enumerate().map(branch).collect()
}

/// A table that assigns chip `C`'s version of `method` to the chips in `named`, with one mask for each word.
fn table(method: &str, masks: &[(u32, u32)], named: &[&str]) -> String {
    let term = |(word, mask): &(u32, u32)| {
        format!(
            "( ((chipHal_HalVarIdx >> 5) == {word}UL) && ((1UL << (chipHal_HalVarIdx & 0x1f)) & 0x{mask:08x}UL) )"
        )
    };
    let terms: Vec<_> = masks.iter().map(term).collect();
    let (terms, named) = (terms.join(" ||\n        "), named.join(" | "));
    format!(
        "    // {method} -- halified (2 hals) body\n    if ({terms}) /* ChipHal: {named} */ \n    {{\n        pThis->__{method}__ = &{method}_C;\n    }}\n\
         \x20   // default\n    else\n    {{\n        pThis->__{method}__ = &{method}_none;\n    }}\n\n"
    )
}

const INDEX: &[(&str, u32)] = &[("A", 30), ("B", 31), ("C", 33), ("D", 40)];

fn tree() -> BTreeMap<&'static str, String> {
    let tables = [
        table("thingDo", &[(1, 0x102)], &["C", "D"]),
        table("thingUndo", &[(1, 2)], &["C"]),
        table("thingDoMore", &[(1, 2)], &["C"]),
    ];
    let code = "/* ask { */\nint ask(int a);\n#define Q \"ask (int b) {\"\nstatic int other(int a) { return ask(a); }\n\
                int\nask\n(\n    int a // ask\n)\n{\n    return a;\n}\n";
    BTreeMap::from([
        ("version.mk", "NVIDIA_VERSION = 580.1.2\n".to_owned()),
        (CHIPS, chips(INDEX)),
        (
            TABLES,
            format!("void init(Thing *pThis)\n{{\n{}}}\n", tables.concat()),
        ),
        (CODE, code.to_owned()),
        (LIST, "FILES += thing.c\n".to_owned()),
    ])
}

const EDITS: &str = r#"
from = "580"
[[bind]]
file = "src/nvidia/generated/g_thing_nvoc.c"
methods = ["thingDo", "thingUndo"]
like = "C"
chips = { first = ["A", "B"], second = ["D"] }
[[rename]]
file = "src/thing.c"
function = "ask"
to = "askOfDriver"
[[add]]
file = "own.c"
to = "src/own.c"
list = "src/list.mk"
variable = "FILES"
entry = "own.c"
"#;

/// Applies the edits to the tree for the family `first`; returns the script's output and the files afterwards.
fn edit(tree: &BTreeMap<&str, String>, edits: &str) -> (Output, BTreeMap<String, String>) {
    edit_for(&["first"], tree, edits)
}

fn edit_for(
    families: &[&str],
    tree: &BTreeMap<&str, String>,
    edits: &str,
) -> (Output, BTreeMap<String, String>) {
    let dir = TempDir::new().unwrap();
    let write = |folder: &str, name: &str, text: &str| {
        let path = dir.path().join(folder).join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    tree.iter()
        .for_each(|(name, text)| write("tree", name, text));
    write("edits", "edits.toml", edits);
    write("edits", "own.c", "level @LEVEL@\n");
    let bind = |at: &Path, to: &str| format!("{}:/build/{to}", at.display());
    let output = Command::new(workspace().join("image/in-tools.sh"))
        .arg("tools")
        .args([
            "--bind",
            &bind(&workspace().join("image/driver"), "scripts"),
        ])
        .args(["--bind", &bind(&dir.path().join("tree"), "tree")])
        .args(["--bind", &bind(&dir.path().join("edits"), "edits")])
        .args([
            "python3",
            "-B",
            "scripts/description/edit.py",
            "tree",
            "edits",
            "7",
        ])
        .args(families)
        .output()
        .unwrap();
    let mut after = BTreeMap::new();
    let names = tree.keys().copied().chain(["src/own.c"]);
    for name in names {
        if let Ok(text) = fs::read_to_string(dir.path().join("tree").join(name)) {
            after.insert(name.to_owned(), text);
        }
    }
    (output, after)
}

#[test]
fn masks_and_comment_follow_the_trees_own_indices_and_nothing_else_changes() {
    let before = tree();
    let (output, after) = edit(&before, EDITS);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "thingDo: as C also A, B\nthingUndo: as C also A, B\nask: its definition is called askOfDriver\nsrc/own.c: added\n",
        "{output:?}"
    );
    let tables = [
        table(
            "thingDo",
            &[(0, 0xc000_0000), (1, 0x102)],
            &["A", "B", "C", "D"],
        ),
        table("thingUndo", &[(0, 0xc000_0000), (1, 2)], &["A", "B", "C"]),
        table("thingDoMore", &[(1, 2)], &["C"]),
    ];
    assert_eq!(
        after[TABLES],
        format!("void init(Thing *pThis)\n{{\n{}}}\n", tables.concat())
    );
    assert_eq!(
        after[CODE],
        before[CODE].replace("int\nask\n(", "int\naskOfDriver\n(")
    );
    assert_eq!(after[LIST], "FILES += thing.c\nFILES += own.c\n");
    assert_eq!(after["src/own.c"], "level 7\n");
    assert_eq!(
        (&after["version.mk"], &after[CHIPS]),
        (&before["version.mk"], &before[CHIPS])
    );
    // The same edits on a tree with shifted indices.
    let moved: Vec<_> = INDEX
        .iter()
        .map(|(name, number)| (*name, number + 3))
        .collect();
    let mut other = before;
    other.insert(CHIPS, chips(&moved));
    let tables = [
        table("thingDo", &[(1, 0x810)], &["C", "D"]),
        table("thingUndo", &[(1, 0x10)], &["C"]),
    ];
    other.insert(TABLES, tables.concat());
    let (_, after) = edit(&other, EDITS);
    assert!(
        after[TABLES].contains(&table("thingDo", &[(1, 0x816)], &["A", "B", "C", "D"])),
        "{}",
        after[TABLES]
    );
    // A tree that already has the bindings needs no edit.
    let mut bound = other.clone();
    bound.insert(TABLES, after[TABLES].clone());
    let (output, again) = edit(&bound, EDITS);
    assert!(
        String::from_utf8_lossy(&output.stdout).starts_with("thingDo: bound already for first\n"),
        "{output:?}"
    );
    assert_eq!(again[TABLES], after[TABLES]);
}

#[test]
fn chips_are_bound_only_for_the_families_that_are_named() {
    let mut tree = tree();
    let bare = [
        table("thingDo", &[(1, 2)], &["C"]),
        table("thingUndo", &[(1, 2)], &["C"]),
    ];
    tree.insert(TABLES, bare.concat());
    for (families, masks, named) in [
        (&[][..], &[(1, 2)][..], &["C"][..]),
        (&["other"], &[(1, 2)], &["C"]),
        (&["first"], &[(0, 0xc000_0000), (1, 2)], &["A", "B", "C"]),
        (&["second"], &[(1, 0x102)], &["C", "D"]),
        (
            &["second", "first"],
            &[(0, 0xc000_0000), (1, 0x102)],
            &["A", "B", "C", "D"],
        ),
    ] {
        let (output, after) = edit_for(families, &tree, EDITS);
        assert!(output.status.success(), "{output:?}");
        let tables = [
            table("thingDo", masks, named),
            table("thingUndo", masks, named),
        ];
        assert_eq!(after[TABLES], tables.concat(), "{families:?}");
        // The other edits are for all.
        assert!(
            after[CODE].contains("askOfDriver") && after.contains_key("src/own.c"),
            "{families:?}"
        );
    }
}

/// A family that is not in families.toml would never be bound.
#[test]
fn the_edits_name_families_and_chips_that_there_are() {
    let read = |path: &str| -> toml::Table {
        toml::from_str(&fs::read_to_string(workspace().join("image/driver").join(path)).unwrap())
            .unwrap()
    };
    let families = read("description/families.toml");
    let families: Vec<_> = families["family"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| f["name"].as_str().unwrap())
        .collect();
    let edits = read("edits/bar1/edits.toml");
    let binds = edits["bind"].as_array().unwrap();
    for (family, chips) in binds
        .iter()
        .flat_map(|bind| bind["chips"].as_table().unwrap())
    {
        assert!(families.contains(&family.as_str()), "{family}");
        assert!(!chips.as_array().unwrap().is_empty(), "{family}");
    }
    assert!(!binds.is_empty());
}

/// Asserts that the tree with one change, in one of its files or in the edits, is refused with these words and not written to.
#[track_caller]
fn assert_refused(file: &str, from: &str, to: &str, words: &str) {
    let (mut tree, mut edits) = (tree(), EDITS.to_owned());
    let changed = match tree.get_mut(file) {
        Some(text) => text,
        None => &mut edits,
    };
    assert!(changed.contains(from), "{file} does not contain {from}");
    *changed = changed.replace(from, to);
    let (output, after) = edit(&tree, &edits);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && output.stdout.is_empty(),
        "{from} {to}: {output:?}"
    );
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(
        stderr.starts_with("firstlight: error: edits edits: ") && stderr.contains(words),
        "{from} {to}: {stderr}"
    );
    let before: BTreeMap<_, _> = tree
        .iter()
        .map(|(name, text)| ((*name).to_owned(), text.clone()))
        .collect();
    assert_eq!(after, before);
}

#[test]
fn a_tree_that_is_not_as_expected_is_refused_and_left_unchanged() {
    for (file, from, to, words) in [
        (
            TABLES,
            "0x00000102",
            "0x00000103",
            "thingDo: the masks hold index 32, C, D; the comment says C, D",
        ),
        (
            TABLES,
            "0x00000102",
            "0x00000002",
            "thingDo: the masks hold C; the comment says C, D",
        ),
        (
            TABLES,
            "C | D",
            "C | E",
            "its comment names E, for which the tree has no index",
        ),
        (
            TABLES,
            "// thingUndo",
            "// thingRedo",
            "thingUndo: 0 tables with 2 assignments, 0 as expected",
        ),
        (
            TABLES,
            "// thingDoMore --",
            "// thingUndo --",
            "thingUndo: 2 tables with 2 assignments, 1 as expected",
        ),
        (
            TABLES,
            "    else\n    {\n        pThis->__thingUndo__",
            "    else if (x)\n    {\n        pThis->__thing__",
            "two branches",
        ),
        (
            TABLES,
            "&thingDo_C",
            "&thingDo_D",
            "C is expected to have thingDo_C; the table gives thingDo_D to C, D",
        ),
        (
            TABLES,
            "(1UL << (chipHal_HalVarIdx & 0x1f)) & 0x00000102UL",
            "1",
            "thingDo: 1 tables with 2 assignments, 0 as expected",
        ),
        (
            TABLES,
            "{\n    // thingDo ",
            "{\n    pThis->__thingDo__ = 0;\n    // thingDo ",
            "thingDo: 1 tables with 3 assignments",
        ),
        (CHIPS, "= 31;", "= 30;", "none, or one twice"),
        (CHIPS, "// B", "// C", "none, or one twice"),
        (CHIPS, "// B", "// X", "the tree has no chip B"),
        (CHIPS, "HalVarIdx", "Idx", "none, or one twice"),
        (CODE, "int\nask\n(", "int\nasked\n(", "ask: 0 definitions"),
        (
            CODE,
            "static int other(int a) {",
            "int ask(int b) {",
            "ask: 2 definitions",
        ),
        (
            CODE,
            "static int other(int a) {",
            "#if X\nint ask(int a) {\n#else\nint ask(int b) {\n#endif",
            "definitions can be read",
        ),
        (
            CODE,
            "other",
            "askOfDriver",
            "there is a askOfDriver already",
        ),
        (
            LIST,
            "FILES",
            "OTHER",
            "src/list.mk has no line 'FILES += ..'",
        ),
        (
            "version.mk",
            "580.1.2",
            "575.64",
            "they are for 580 and newer; the tree is 575.64",
        ),
        (
            "version.mk",
            "580.1.2",
            "new",
            "the tree is of an unknown version",
        ),
        (
            "edits",
            "like = \"C\"",
            "like = \"D\"",
            "D is expected to have thingDo_D",
        ),
        (
            "edits",
            "[\"A\", \"B\"]",
            "[\"A\", \"D\"]",
            "thingDo: D has thingDo_C already, A not",
        ),
        ("edits", "from = \"580\"", "", "from is ''"),
        (
            "edits",
            "[[bind]]",
            "[[bend]]",
            "unknown table [[bend]]; allowed: bind, rename, call, argument, add",
        ),
        ("edits", "like = \"C\"", "lke = \"C\"", "key l"),
        (
            "edits",
            "src/thing.c",
            "src/none.c",
            "src/none.c: No such file",
        ),
        (
            "edits",
            "to = \"src/own.c\"",
            "to = \"src/thing.c\"",
            "there is a src/thing.c already",
        ),
    ] {
        assert_refused(file, from, to, words);
    }
}

/// What a program with this C code returns; `None`: it does not compile.
fn compiled(code: &str) -> Option<i32> {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.c"), code).unwrap();
    let mut compiler = Command::new("gcc");
    let output = compiler
        .args(["-Wall", "-Wextra", "-Werror", "-o", "a", "a.c"])
        .current_dir(dir.path())
        .output();
    output.unwrap().status.success().then(|| {
        Command::new(dir.path().join("a"))
            .status()
            .unwrap()
            .code()
            .unwrap()
    })
}

#[test]
fn a_call_gets_the_argument_where_the_kernel_takes_it_unless_the_tree_already_has_it() {
    let edits = "from = \"580\"\n[[argument]]\nfile = \"src/thing.c\"\nfunction = \"resize\"\ncount = 4\nvalue = \"5\"\n\
                 forms = [\"int (char *, int, int)\", \"int (char *, int, int, int)\"]\n";
    let with = |code: &str| {
        let mut tree = tree();
        tree.insert(CODE, code.to_owned());
        edit(&tree, edits)
    };
    let (output, after) = with(
        "// resize(x)\nint main(void)\n{\n    int r = resize(\",)\", 3 /* , */,\n        7);\n    return r;\n}\n",
    );
    assert!(output.status.success(), "{output:?}");
    assert!(
        after[CODE].starts_with("// resize(x)\nint main(void)\n{\n    int r = ({ "),
        "{}",
        after[CODE]
    );
    // The module is built for kernels of both forms, and a third is not taken for one of them.
    let kernel = |head: &str| compiled(&format!("{head}\n{}", after[CODE]));
    let must = "__attribute__((warn_unused_result)) int";
    assert_eq!(
        kernel(&format!(
            "{must} resize(char *a, int b, int c) {{ return (*a == ',') + b + c; }}"
        )),
        Some(11)
    );
    let four = "resize(char *a, int b, int c, int d) { return (*a == ',') + b + c + 10 * d; }";
    assert_eq!(kernel(&format!("{must} {four}")), Some(61));
    assert_eq!(
        kernel(
            "int resize(char *a, int b, int c, long d) { return (*a == ',') + b + c + (int)d; }"
        ),
        None
    );

    let both =
        "#if NEW\n  r = resize(dev, 1, size, 0);\n#else\n  r = resize(dev, 1, size);\n#endif\n";
    let (output, after) = with(both);
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("resize: has 4 arguments already"),
        "{output:?}"
    );
    assert_eq!(after[CODE], both);

    for (code, why) in [
        ("int g(void) { return 0; }\n", "found calls with []"),
        ("r = resize(dev, 1);\n", "found calls with [2]"),
        (
            "r = resize(a, b, c);\nr = resize(a, b, d);\n",
            "found calls with [3, 3]",
        ),
        ("r = resize(a, b, c;\n", "a call of it has no end"),
        ("r = resize(a, b", "a call of it has no end"),
    ] {
        let (output, after) = with(code);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && stderr.contains(why),
            "{code}: {stderr}"
        );
        assert_eq!(after[CODE], code);
    }
}

#[test]
fn the_calls_of_one_function_lead_to_another_and_others_stay() {
    let edits = "from = \"580\"\n[[call]]\nfile = \"src/thing.c\"\nwithin = \"become\"\nfunction = \"set\"\ncount = 2\n\
                 to = \"setOfOurs\"\ndeclare = \"void setOfOurs(int a);\"\n";
    let with = |code: &str| {
        let mut tree = tree();
        tree.insert(CODE, code.to_owned());
        edit(&tree, edits)
    };
    let code = "static void set(int a) { }\nint become(int a);\nvoid before(void) { set(0); }\n#if X\n#endif\nstatic int become(int a)\n{\n\
                \x20   set(1); // set(2)\n    if (a) { set (3); reset(4); }\n    return a; /* } */\n}\nvoid after(void) { set(5); }\n";
    let (output, after) = with(code);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "become: calls setOfOurs in place of set, 2 times\n",
        "{output:?}"
    );
    let expected = code
        .replace("    set(1);", "    setOfOurs(1);")
        .replace("set (3)", "setOfOurs (3)")
        .replace(
            "static int become",
            "void setOfOurs(int a);\nstatic int become",
        );
    assert_eq!(after[CODE], expected);
    // The type on a line of its own
    let (_, after) = with("int\nbecome\n(\n)\n{ set(1); set(2); }\n");
    assert_eq!(
        after[CODE],
        "void setOfOurs(int a);\nint\nbecome\n(\n)\n{ setOfOurs(1); setOfOurs(2); }\n"
    );
    for (code, why) in [
        (
            "int become(void) { set(1); }\n",
            "become: expected 2 calls of set, found 1",
        ),
        ("int become(void) { set(1); set(2); set(3); }\n", "found 3"),
        (
            "int other(void) { set(1); set(2); }\n",
            "become: 0 definitions",
        ),
        (
            "int become(void) { set(1); set(2); }\nvoid setOfOurs(int a);\n",
            "there is a setOfOurs already",
        ),
        (
            "int become(void) { set(1); set(2);\n",
            "become: 1 definitions can be read",
        ),
    ] {
        let (output, after) = with(code);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && stderr.contains(why),
            "{code}: {stderr}"
        );
        assert_eq!(after[CODE], code);
    }
}
