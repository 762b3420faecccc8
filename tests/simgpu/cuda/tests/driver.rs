//! The library as programs use it: loaded from its file and called through the C interface with the product's own kernel
//! images. The model has its own tests; these cover only the interface.
#![expect(unsafe_code, reason = "the interface is one of C")]
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use harness::simgpu::Libraries;
use libloading::{Library, Symbol};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, ptr};

const MACHINE: &str = include_str!("../../machines/epyc-8x4090.toml");
static KERNELS: &[u8] =
    include_bytes!("../../../../validator/kernels/images/firstlight.sm_89.cubin");

/// A folder with the library and a scenario file.
fn library_folder(more: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::copy(
        &Libraries::built().unwrap().cuda,
        dir.path().join("libcuda.so.1"),
    )
    .unwrap();
    fs::write(dir.path().join("simgpu.toml"), format!("{MACHINE}\n{more}")).unwrap();
    dir
}

fn load(dir: &Path) -> Library {
    // SAFETY: a library of this workspace; its only initialisers are the compiler's.
    unsafe { Library::new(dir.join("libcuda.so.1")) }.unwrap()
}

macro_rules! call {
    ($library:expr, $name:literal, $($type:ty: $value:expr),* $(,)?) => {{
        // SAFETY: the types are those of the header, and the pointers are valid.
        unsafe {
            let f: Symbol<'_, unsafe extern "C" fn($($type),*) -> c_int> = $library.get($name).unwrap();
            f($($value),*)
        }
    }};
}

/// A context on each of the first two GPUs.
fn contexts(cuda: &Library) -> [usize; 2] {
    assert_eq!(call!(cuda, "cuInit", u32: 0), 0);
    [0, 1].map(|gpu: c_int| {
        let mut context = 0usize;
        assert_eq!(
            call!(cuda, "cuDevicePrimaryCtxRetain", *mut usize: &raw mut context, c_int: gpu),
            0
        );
        context
    })
}

#[test]
fn real_kernel_images_fill_and_copy() {
    let dir = library_folder("");
    let cuda = load(dir.path());
    let mut name = [0 as c_char; 64];
    let [a, b] = contexts(&cuda);
    assert_eq!(
        call!(cuda, "cuDeviceGetName", *mut c_char: name.as_mut_ptr(), c_int: 64, c_int: 0),
        0
    );
    // SAFETY: the call NUL-terminated it.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) };
    assert_eq!(name.to_str(), Ok("Simulated NVIDIA GeForce RTX 4090"));

    let mut buffers = [0u64; 2];
    for (context, buffer) in [a, b].into_iter().zip(&mut buffers) {
        assert_eq!(call!(cuda, "cuCtxSetCurrent", usize: context), 0);
        assert_eq!(
            call!(cuda, "cuMemAlloc_v2", *mut u64: &raw mut *buffer, usize: 1 << 20),
            0
        );
    }
    assert_eq!(call!(cuda, "cuCtxSetCurrent", usize: a), 0);
    assert_eq!(call!(cuda, "cuCtxEnablePeerAccess", usize: b, u32: 0), 0);
    assert_eq!(call!(cuda, "cuCtxEnablePeerAccess", usize: b, u32: 0), 704);
    let (mut module, mut function, mut stream) = (0usize, 0usize, 0usize);
    let image: *const c_void = KERNELS.as_ptr().cast();
    assert_eq!(
        call!(cuda, "cuModuleLoadData", *mut usize: &raw mut module, *const c_void: image),
        0
    );
    let find = |name: &CStr, to: *mut usize| call!(cuda, "cuModuleGetFunction", *mut usize: to, usize: module, *const c_char: name.as_ptr());
    assert_eq!(find(c"fl_nothing", &raw mut function), 500);
    assert_eq!(find(c"fl_fill", &raw mut function), 0);
    assert_eq!(
        call!(cuda, "cuStreamCreate", *mut usize: &raw mut stream, u32: 1),
        0
    );

    let mut arguments = [buffers[0], (1 << 20) / 4, 42, 7];
    let mut list = arguments
        .each_mut()
        .map(|a| ptr::from_mut(a).cast::<c_void>());
    assert_eq!(launch(&cuda, function, stream, &mut list), 0);
    let (to, from) = (buffers[1], buffers[0]);
    assert_eq!(
        call!(cuda, "cuMemcpyAsync", u64: to, u64: from, usize: 1 << 20, usize: stream),
        0
    );
    let mut words = vec![0u32; 1 << 18];
    let out: *mut c_void = words.as_mut_ptr().cast();
    assert_eq!(
        call!(cuda, "cuMemcpyDtoHAsync_v2", *mut c_void: out, u64: to, usize: 1 << 20, usize: stream),
        0
    );
    assert_eq!(call!(cuda, "cuStreamQuery", usize: stream), 0);
    let expected = (7..).map(|i| simgpu_model::pattern::word(42, i));
    assert!(words.iter().copied().eq(expected.take(words.len())));
}

fn launch(cuda: &Library, function: usize, stream: usize, arguments: &mut [*mut c_void]) -> c_int {
    let list: *mut *mut c_void = arguments.as_mut_ptr();
    call!(cuda, "cuLaunchKernel", usize: function, u32: 128, u32: 1, u32: 1, u32: 256, u32: 1, u32: 1, u32: 0,
        usize: stream, *mut *mut c_void: list, *mut *mut c_void: ptr::null_mut())
}

#[test]
fn page_locked_memory_has_real_contents_when_touched() {
    let dir = library_folder("");
    let cuda = load(dir.path());
    let [a, _] = contexts(&cuda);
    assert_eq!(call!(cuda, "cuCtxSetCurrent", usize: a), 0);
    let (mut memory, mut buffer, bytes) = (ptr::null_mut::<c_void>(), 0u64, 64usize << 20);
    assert_eq!(
        call!(cuda, "cuMemHostAlloc", *mut *mut c_void: &raw mut memory, usize: bytes, u32: 3),
        0
    );
    assert_eq!(
        call!(cuda, "cuMemAlloc_v2", *mut u64: &raw mut buffer, usize: bytes),
        0
    );
    assert_eq!(
        call!(cuda, "cuMemsetD8Async", u64: buffer, u8: 0xa5, usize: bytes, usize: 0),
        0
    );
    assert_eq!(
        call!(cuda, "cuMemcpyDtoHAsync_v2", *mut c_void: memory, u64: buffer, usize: bytes, usize: 0),
        0
    );
    assert_eq!(call!(cuda, "cuCtxSynchronize",), 0);
    // SAFETY: cuMemHostAlloc allocated this many bytes, and nothing else uses them.
    let real = unsafe { std::slice::from_raw_parts_mut(memory.cast::<u8>(), bytes) };
    assert_eq!(
        [real.first(), real.get(bytes / 2), real.last()],
        [Some(&0xa5); 3]
    );
    real[bytes / 3] = 1;
    assert_eq!(
        call!(cuda, "cuMemcpyHtoDAsync_v2", u64: buffer, *const c_void: memory.cast_const(), usize: bytes, usize: 0),
        0
    );
    let mut back = [0u8; 3];
    let from = buffer + bytes as u64 / 3 - 1;
    assert_eq!(
        call!(cuda, "cuMemcpyDtoHAsync_v2", *mut c_void: back.as_mut_ptr().cast(), u64: from, usize: 3, usize: 0),
        0
    );
    assert_eq!(back, [0xa5, 1, 0xa5]);
    assert_eq!(call!(cuda, "cuMemFreeHost", *mut c_void: memory), 0);
}

#[test]
fn an_invalid_scenario_makes_cuinit_fail() {
    for (more, code) in [
        ("[[fault]]\nkind = \"zeroes\"\n", 1),
        ("[[fault]]\nkind = \"init\"\ncode = 803\n", 803),
    ] {
        let dir = library_folder(more);
        let cuda = load(dir.path());
        assert_eq!(call!(cuda, "cuInit", u32: 0), code);
    }
}

/// The environment variable with the folder of the library, for the child process of the next test.
const LIBRARY: &str = "SIMGPU_TEST_LIBRARY";

#[test]
fn what_is_not_simulated_ends_the_process_with_its_name() {
    if let Some(dir) = env::var_os(LIBRARY) {
        let cuda = load(&PathBuf::from(dir));
        call!(cuda, "cuGraphCreate", *mut usize: ptr::null_mut(), u32: 0);
        return;
    }
    let dir = library_folder("");
    let own = "what_is_not_simulated_ends_the_process_with_its_name";
    let mut child = Command::new(env::current_exe().unwrap());
    let output = child
        .args(["--exact", own, "--nocapture"])
        .env(LIBRARY, dir.path())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.contains("simgpu: cuGraphCreate is not simulated"),
        "{stderr}"
    );
    assert_eq!(output.status.signal(), Some(6), "{}", output.status);
}
