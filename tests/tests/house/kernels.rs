//! Were the checked-in GPU images compiled from the current sources, and do they contain every kernel that the validator
//! loads by name? And does the pattern, with which all data is compared, have its known values? `just kernels --check`
//! tests whether the compiler produces the same bytes again.

use harness::workspace;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use toml::Table;

/// Every kernel that the validator launches, with the sizes of its parameters in bytes, in order.
const KERNELS: &[(&str, &[usize])] = &[
    ("fl_fill", &[8, 8, 8, 8]),
    ("fl_check", &[8, 8, 8, 8, 8, 8]),
    ("fl_tag", &[8, 8, 8, 4, 4, 8, 8]),
    ("fl_tag_check", &[8, 8, 8, 4, 4, 8, 8, 8, 4, 8]),
    ("fl_batch_copy", &[8, 8, 4]),
    ("fl_batch_check", &[8, 8, 4, 8, 8, 8, 4, 8]),
    ("fl_nccl_fill", &[8, 8, 4, 4, 8, 8, 4, 4, 4, 8, 8, 8]),
    (
        "fl_nccl_check",
        &[8, 8, 4, 4, 4, 4, 8, 8, 4, 4, 4, 8, 8, 8, 8, 8],
    ),
    ("fl_copy16", &[8, 8, 8]),
    ("fl_copy_words", &[8, 8, 8]),
    ("fl_copy_vec", &[8, 8, 8]),
    ("fl_spin", &[8, 8]),
    ("fl_chase_init", &[8, 8, 8]),
    ("fl_chase", &[8, 8, 8]),
    ("fl_pingpong", &[8, 8, 8, 8, 8, 4, 8, 8]),
    ("fl_pingpong_wide", &[8, 8, 8, 8, 8, 4, 8, 8]),
    ("fl_march", &[8, 8, 8, 8, 4, 4, 8]),
    ("fl_products_int8", &[8, 4, 4, 8]),
    ("fl_products_float", &[8, 4, 4, 8]),
    ("fl_reduce", &[8, 4, 4, 8, 8, 8, 8, 4, 4]),
    ("fl_reduce_fill", &[8, 8, 8, 4, 4, 8]),
    ("fl_reduce_check", &[8, 8, 8, 4, 4, 8, 8]),
    ("fl_reduce_next", &[8, 4]),
    ("fl_atomic_add", &[8, 8]),
    ("fl_atomic_cas", &[8, 8]),
];

/// The architectures that have their own image; every other GPU uses the PTX.
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
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout)
        .split(' ')
        .next()
        .unwrap()
        .to_owned()
}

fn table(path: &Path) -> Table {
    toml::from_str(&String::from_utf8(read(path)).unwrap()).unwrap()
}

fn manifest() -> Table {
    table(&folder().join("images/manifest.toml"))
}

fn names_in(folder: &Path) -> BTreeSet<String> {
    fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect()
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
    assert_eq!(
        sources.keys().cloned().collect::<BTreeSet<_>>(),
        there,
        "run `just kernels`"
    );
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
        assert_eq!(
            image["bytes"].as_integer(),
            i64::try_from(read(&path).len()).ok(),
            "{file}"
        );
    }
    assert_eq!(named, names_in(&folder().join("images")));
    let cubins = ARCHITECTURES.map(|sm| format!("firstlight.sm_{sm}.cubin"));
    let wanted = cubins
        .into_iter()
        .chain([PTX.to_owned(), "manifest.toml".to_owned()]);
    assert_eq!(named, wanted.collect());
}

/// The architecture of an ELF file for a GPU. It is in byte 0 of `e_flags`, or in byte 1 since the second version of the
/// format, which came with CUDA 12.8.
fn architecture(image: &[u8]) -> u32 {
    assert_eq!(&image[..5], b"\x7fELF\x02", "not a 64-bit ELF file");
    let u16_at = |at: usize| u16::from_le_bytes([image[at], image[at + 1]]);
    assert_eq!(
        (u16_at(16), u16_at(18)),
        (2, 190),
        "not an executable for CUDA"
    );
    let old = image[7] != 0x41;
    u32::from(if old { image[48] } else { image[49] })
}

/// The kernels of an ELF file, from the names of its code sections. Names are split at their zero bytes, so that none is
/// taken for a longer one.
fn kernels_of(image: &[u8]) -> BTreeSet<String> {
    let names = image
        .split(|b| *b == 0)
        .filter_map(|name| name.strip_prefix(b".text."));
    names
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect()
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

/// Driver 550 compiles PTX up to version 8.4.
#[test]
fn the_ptx_is_old_enough_for_the_oldest_driver_and_gpu() {
    let ptx = String::from_utf8(read(&folder().join("images").join(PTX))).unwrap();
    let says = |line: &str| ptx.lines().any(|l| l == line);
    assert!(says(".version 8.4") && says(".target sm_75") && says(".address_size 64"));
    assert_eq!(ptx.matches(".visible .entry ").count(), KERNELS.len());
}

/// A launch passes only the addresses of arguments: a kernel with a larger parameter would read past its argument.
#[test]
fn each_kernel_takes_the_arguments_that_the_validator_gives() {
    let ptx = String::from_utf8(read(&folder().join("images").join(PTX))).unwrap();
    for (kernel, sizes) in KERNELS {
        let (_, rest) = ptx
            .split_once(&format!(".entry {kernel}("))
            .unwrap_or_else(|| panic!("no {kernel}"));
        let (parameters, _) = rest.split_once(')').unwrap();
        let found: Vec<usize> = parameters.split(',').map(size_of_parameter).collect();
        assert_eq!(&found, sizes, "{kernel}");
    }
}

/// The size in bytes of a parameter such as `.param .u64 fl_fill_param_0`.
fn size_of_parameter(text: &str) -> usize {
    let kind = text.split_whitespace().nth(1).unwrap();
    kind.trim_start_matches(|c: char| !c.is_ascii_digit())
        .parse::<usize>()
        .unwrap()
        / 8
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

/// The known values in a file of vectors.
fn vectors(file: &str) -> Vec<toml::Value> {
    let table = table(&folder().join(file));
    table["vectors"].as_array().unwrap().clone()
}

fn hex(of: &toml::Value, key: &str) -> u64 {
    u64::from_str_radix(of[key].as_str().unwrap().strip_prefix("0x").unwrap(), 16).unwrap()
}

/// The numbers that a C program prints, one per line. It includes a header of the kernels' own source, compiled by the host's
/// compiler, whose integer arithmetic is the same as a GPU's.
fn on_the_host(header: &str, main: &str) -> Vec<u64> {
    let program = format!(
        "#include <stdio.h>\n#include \"{header}\"\nint main(void) {{\n{main}return 0;\n}}\n"
    );
    let work = tempfile::tempdir().unwrap();
    let (source, binary) = (work.path().join("program.c"), work.path().join("program"));
    fs::write(&source, program).unwrap();
    let words = [
        "-Werror",
        "-w",
        "-O1",
        "-D__device__=",
        "-D__forceinline__=inline",
        "-I",
    ];
    let built = Command::new("gcc")
        .args(words)
        .arg(folder())
        .arg(&source)
        .arg("-o")
        .arg(&binary)
        .status();
    assert!(built.unwrap().success());
    let output = Command::new(binary).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    stdout.lines().map(|l| l.parse().unwrap()).collect()
}

#[test]
fn the_pattern_has_its_known_values() {
    let vectors = vectors("pattern-vectors.toml");
    assert!(vectors.len() >= 16 && vectors.iter().any(|v| hex(v, "i") > u64::from(u32::MAX)));
    let call = |v| {
        format!(
            "printf(\"%u\\n\", word({}ull, {}ull));\n",
            hex(v, "seed"),
            hex(v, "i")
        )
    };
    let found = on_the_host("word.cuh", &vectors.iter().map(call).collect::<String>());
    assert_eq!(
        found,
        vectors.iter().map(|v| hex(v, "word")).collect::<Vec<_>>()
    );
}

/// The size of a vector's element in bytes, and its arguments of `values_of`.
fn element_bytes_and_arguments(vector: &toml::Value) -> (u64, String) {
    let (bytes, data) = match vector["data"].as_str().unwrap() {
        "int32" => (4, "INT32"),
        "half" => (2, "HALF"),
        "float" => (4, "FLOAT"),
        "double" => (8, "DOUBLE"),
        "bfloat16" => (2, "BFLOAT16"),
        other => panic!("{other}"),
    };
    let op = vector["op"].as_str().unwrap().to_uppercase();
    let ranks = if op == "COPY" {
        1
    } else {
        vector["ranks"].as_integer().unwrap()
    };
    let [rank, range, scale] =
        ["rank", "range", "scale"].map(|key| vector[key].as_integer().unwrap());
    let powers = u32::from(vector["powers"].as_bool().unwrap());
    let seed = hex(vector, "seed");
    (
        bytes,
        format!("{seed}ull, {rank}, {ranks}, {data}, {op}, {range}u, {scale}, {powers}"),
    )
}

/// Each vector's element is computed at every position in a group, with one group for each position.
#[test]
fn the_values_of_collectives_have_their_known_bits() {
    let vectors = vectors("value-vectors.toml");
    assert!(vectors.len() > 30);
    let calls = |vector| {
        let (bytes, asked) = element_bytes_and_arguments(vector);
        let group = |place| {
            let i = hex(vector, "i").wrapping_sub(place);
            let bits = format!(
                "bits = 0; __builtin_memcpy(&bits, (char *)group + {}, {bytes});",
                place * bytes
            );
            format!(
                "make_group(group, &values, {bytes}, {i}ull); {bits} printf(\"%llu\\n\", bits);\n"
            )
        };
        let groups: String = (0..16 / bytes).map(group).collect();
        format!(
            "{{ const Values values = values_of({asked}); u32 group[GROUP_WORDS]; u64 bits;\n{groups}}}\n"
        )
    };
    let found = on_the_host("values.cuh", &vectors.iter().map(calls).collect::<String>());
    let places = |v| usize::try_from(16 / element_bytes_and_arguments(v).0).unwrap();
    let wanted: Vec<_> = vectors
        .iter()
        .flat_map(|v| vec![hex(v, "bits"); places(v)])
        .collect();
    assert_eq!(found, wanted);
}

/// Compares the kernels' remainder with the processor's, at the values where it could be off by one.
#[test]
fn remainders_are_right_at_both_ends_of_every_quotient() {
    let program = "
        const u32 ranges[] = {1, 2, 3, 5, 7, 255, 256, 257, 65535, 65536, 641, 6700417, 2097151, 16777215, 2147483647,
                              2147483648u, 2147483649u, 2863311531u, 4294967294u, 4294967295u};
        u64 looked = 0, wrong = 0;
        for (u32 n = 0; n < sizeof ranges / sizeof *ranges; n++)
            for (u64 k = 0; k < 200000; k++) {
                const u32 range = ranges[n], most = 0xFFFFFFFFu / range;
                const u32 quotient = k < 100000 ? (u32)k : most - (u32)(k - 100000);
                for (u32 d = 0; d < 3; d++) {
                    const u32 w = quotient * range + d - 1;
                    looked++, wrong += modulo(w, range, 0xFFFFFFFFu / range) != w % range;
                }
            }
        printf(\"%llu\\n%llu\\n\", looked, wrong);
    ";
    assert_eq!(on_the_host("values.cuh", program), [20 * 200_000 * 3, 0]);
}

/// A misspelt option must not be taken for "write everything".
#[test]
fn the_compile_script_refuses_what_it_does_not_know() {
    let mut command = Command::new(folder().join("compile.py"));
    let output = command
        .arg("--chekc")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        (output.status.code(), stderr.lines().count()),
        (Some(1), 1),
        "{stderr}"
    );
    assert!(
        stderr.contains("--chekc") && stderr.contains("--check"),
        "{stderr}"
    );
}
