//! Are the checked-in GPU images what their sources gave, and do they hold what the validator asks for
//! by name? And does the pattern, which everything is held against, have its known values? Whether the
//! compiler would give the same bytes again is for `just kernels --check`.

use harness::workspace;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use toml::Table;

/// Every kernel that the validator launches, with its parameters' sizes in bytes, in their order.
const KERNELS: &[(&str, &[usize])] = &[
    ("fl_fill", &[8, 8, 8, 8]),
    ("fl_check", &[8, 8, 8, 8, 8, 8]),
    ("fl_copy16", &[8, 8, 8]),
    ("fl_copy_words", &[8, 8, 8]),
    ("fl_copy_vec", &[8, 8, 8]),
    ("fl_spin", &[8, 8]),
    ("fl_chase_init", &[8, 8, 8]),
    ("fl_chase", &[8, 8, 8]),
    ("fl_pingpong", &[8, 8, 8, 8, 8, 4, 8, 8]),
    ("fl_atomic_add", &[8, 8]),
    ("fl_atomic_cas", &[8, 8]),
];

/// The architectures that have their own image; every other GPU gets the PTX.
const ARCHITECTURES: [u32; 7] = [75, 80, 86, 89, 90, 100, 120];
const PTX: &str = "firstlight.compute_75.ptx";

fn folder() -> PathBuf {
    workspace().join("validator/kernels")
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn sha256(path: &Path) -> String {
    let output = Command::new("sha256sum").arg(path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).split(' ').next().unwrap().to_owned()
}

fn table(path: &Path) -> Table {
    toml::from_str(&String::from_utf8(read(path)).unwrap()).unwrap()
}

fn manifest() -> Table {
    table(&folder().join("images/manifest.toml"))
}

fn names_in(folder: &Path) -> BTreeSet<String> {
    fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
}

fn has(bytes: &[u8], part: &str) -> bool {
    bytes.windows(part.len()).any(|w| w == part.as_bytes())
}

#[test]
fn the_images_were_compiled_from_these_sources() {
    let manifest = manifest();
    let sources = manifest["sources"].as_table().unwrap();
    let is_source = |name: &String| name.ends_with(".cu") || name.ends_with(".cuh");
    let there: BTreeSet<_> = names_in(&folder()).into_iter().filter(is_source).collect();
    assert_eq!(sources.keys().cloned().collect::<BTreeSet<_>>(), there, "run `just kernels`");
    for (name, hash) in sources {
        let now = sha256(&folder().join(name));
        assert_eq!(
            hash.as_str(),
            Some(&*now),
            "{name} changed since the images were made: run `just kernels`"
        );
    }
}

#[test]
fn the_images_are_those_that_the_manifest_names() {
    let manifest = manifest();
    let images = manifest["image"].as_array().unwrap();
    let mut named = BTreeSet::from(["manifest.toml".to_owned()]);
    for image in images {
        let file = image["file"].as_str().unwrap();
        named.insert(file.to_owned());
        let path = folder().join("images").join(file);
        assert_eq!(image["sha256"].as_str(), Some(&*sha256(&path)), "{file}");
        assert_eq!(image["bytes"].as_integer(), i64::try_from(read(&path).len()).ok(), "{file}");
    }
    assert_eq!(named, names_in(&folder().join("images")));
    let cubins = ARCHITECTURES.map(|sm| format!("firstlight.sm_{sm}.cubin"));
    let wanted = cubins.into_iter().chain([PTX.to_owned(), "manifest.toml".to_owned()]);
    assert_eq!(named, wanted.collect());
}

/// Of an ELF file for a GPU: the architecture it is for. Its place in `e_flags` moved with CUDA 12.8's
/// second version of that file: byte 0 before, byte 1 since.
fn architecture(image: &[u8]) -> u32 {
    assert_eq!(&image[..5], b"\x7fELF\x02", "not a 64-bit ELF file");
    let u16_at = |at: usize| u16::from_le_bytes([image[at], image[at + 1]]);
    assert_eq!((u16_at(16), u16_at(18)), (2, 190), "not an executable for CUDA");
    let old = image[7] != 0x41;
    u32::from(if old { image[48] } else { image[49] })
}

/// The kernels of an ELF file: what the names of its sections of code end in. Names end with a zero byte,
/// so that none is taken for a longer one.
fn kernels_of(image: &[u8]) -> BTreeSet<String> {
    let names = image.split(|b| *b == 0).filter_map(|name| name.strip_prefix(b".text."));
    names.map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

#[test]
fn each_cubin_is_for_its_gpu_and_has_every_kernel() {
    let wanted: BTreeSet<_> = KERNELS.iter().map(|(name, _)| (*name).to_owned()).collect();
    for sm in ARCHITECTURES {
        let image = read(&folder().join(format!("images/firstlight.sm_{sm}.cubin")));
        assert_eq!(architecture(&image), sm);
        assert_eq!(kernels_of(&image), wanted, "sm_{sm}");
    }
}

/// The driver 550 translates PTX up to version 8.4.
#[test]
fn the_ptx_is_old_enough_for_the_oldest_driver_and_gpu() {
    let ptx = String::from_utf8(read(&folder().join("images").join(PTX))).unwrap();
    let says = |line: &str| ptx.lines().any(|l| l == line);
    assert!(says(".version 8.4") && says(".target sm_75") && says(".address_size 64"));
    assert_eq!(ptx.matches(".visible .entry ").count(), KERNELS.len());
}

/// A launch hands over bare addresses of arguments: a parameter of another size would read past them.
#[test]
fn each_kernel_takes_the_arguments_that_the_validator_gives() {
    let ptx = String::from_utf8(read(&folder().join("images").join(PTX))).unwrap();
    for (kernel, sizes) in KERNELS {
        let (_, rest) = ptx.split_once(&format!(".entry {kernel}(")).unwrap_or_else(|| panic!("no {kernel}"));
        let (parameters, _) = rest.split_once(')').unwrap();
        let found: Vec<usize> = parameters.split(',').map(size_of_parameter).collect();
        assert_eq!(&found, sizes, "{kernel}");
    }
}

/// `.param .u64 fl_fill_param_0`
fn size_of_parameter(text: &str) -> usize {
    let kind = text.split_whitespace().nth(1).unwrap();
    kind.trim_start_matches(|c: char| !c.is_ascii_digit()).parse::<usize>().unwrap() / 8
}

#[test]
fn no_image_names_a_folder_or_a_source_file() {
    for name in names_in(&folder().join("images")) {
        let image = read(&folder().join("images").join(&name));
        for part in ["/tmp", "/usr", "/root", "/build", ".cache"] {
            assert!(!has(&image, part), "{name} names {part}");
        }
    }
}

/// (seed, i, word)
fn vectors() -> Vec<(u64, u64, u32)> {
    let file = table(&folder().join("pattern-vectors.toml"));
    let number = |of: &toml::Value, key: &str| {
        let text = of[key].as_str().unwrap().strip_prefix("0x").unwrap();
        u64::from_str_radix(text, 16).unwrap()
    };
    let vectors = file["vectors"].as_array().unwrap();
    let read = |v| (number(v, "seed"), number(v, "i"), u32::try_from(number(v, "word")).unwrap());
    vectors.iter().map(read).collect()
}

/// The kernels' own source, by the host's compiler. What differs between it and a GPU's is not the
/// arithmetic of unsigned numbers.
#[test]
fn the_pattern_has_its_known_values() {
    let vectors = vectors();
    assert!(vectors.len() >= 16 && vectors.iter().any(|(_, i, _)| *i > u64::from(u32::MAX)));
    let calls: String =
        vectors.iter().map(|(seed, i, _)| format!("printf(\"%u\\n\", word({seed}ull, {i}ull));\n")).collect();
    let program =
        format!("#include <stdio.h>\n#include \"word.cuh\"\nint main(void) {{\n{calls}return 0;\n}}\n");
    let work = tempfile::tempdir().unwrap();
    let (source, binary) = (work.path().join("word.c"), work.path().join("word"));
    fs::write(&source, program).unwrap();
    let words = ["-Werror", "-w", "-D__device__=", "-D__forceinline__=inline", "-I"];
    let built = Command::new("gcc").args(words).arg(folder()).arg(&source).arg("-o").arg(&binary).status();
    assert!(built.unwrap().success());
    let output = Command::new(binary).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let found: Vec<u32> = said.lines().map(|l| l.parse().unwrap()).collect();
    assert_eq!(found, vectors.iter().map(|(_, _, word)| *word).collect::<Vec<_>>());
}

/// A wrong word on its command line must not be taken for "write everything".
#[test]
fn the_compile_script_refuses_what_it_does_not_know() {
    let mut command = Command::new(folder().join("compile.py"));
    let output = command.arg("--chekc").stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains("--chekc") && said.contains("--check"), "{said}");
}
