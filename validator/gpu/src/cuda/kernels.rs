//! The kernels of `validator/kernels`: as machine code for each GPU family and as PTX for later ones, compiled by
//! `just kernels` and kept with the source; in one context, loading the image that fits and finding each kernel by
//! name.
#![expect(unsafe_code, reason = "calls into the CUDA driver")]

use super::api::Api;
use super::error::GpuError;
use cudarc::driver::sys;
use std::ffi::CStr;
use std::ptr;

macro_rules! image {
    ($name:literal) => {
        include_bytes!(concat!("../../../kernels/images/firstlight.", $name))
    };
}

/// Machine code by compute capability. Code for X.y runs on X.z where z is not less than y
/// (CUDA C++ Programming Guide, "Binary Compatibility").
static CUBINS: &[((u32, u32), &[u8])] = &[
    ((7, 5), image!("sm_75.cubin")),
    ((8, 0), image!("sm_80.cubin")),
    ((8, 6), image!("sm_86.cubin")),
    ((8, 9), image!("sm_89.cubin")),
    ((9, 0), image!("sm_90.cubin")),
    ((10, 0), image!("sm_100.cubin")),
    ((12, 0), image!("sm_120.cubin")),
];

/// PTX, which the driver compiles itself where no machine code fits; it ends with a zero, as the driver
/// requires for text.
static PTX: &[u8] = concat!(
    include_str!("../../../kernels/images/firstlight.compute_75.ptx"),
    "\0"
)
.as_bytes();
/// The lowest capability that the PTX runs on.
const PTX_FROM: (u32, u32) = (7, 5);

/// The image for a GPU; `None` for a GPU older than all images.
pub(super) fn fitting(capability: (u32, u32)) -> Option<&'static [u8]> {
    let (major, minor) = capability;
    let runs = |for_: (u32, u32)| for_.0 == major && for_.1 <= minor;
    let best = CUBINS
        .iter()
        .filter(|(for_, _)| runs(*for_))
        .max_by_key(|(for_, _)| *for_);
    best.map(|(_, image)| *image)
        .or_else(|| (capability >= PTX_FROM).then_some(PTX))
}

macro_rules! kernels {
    ($($name:ident = $symbol:literal;)*) => {
        /// The kernels of one context.
        pub(super) struct Kernels {
            module: sys::CUmodule,
            $(pub(super) $name: sys::CUfunction,)*
        }

        impl Kernels {
            /// Loads an image into the current context.
            pub(super) fn load(api: &Api, image: &[u8], ordinal: usize) -> Result<Self, GpuError> {
                let module = module(api, image, ordinal)?;
                Ok(Self { module, $($name: function(api, module, $symbol, ordinal)?,)* })
            }
        }
    };
}

kernels! {
    fill = c"fl_fill";
    check = c"fl_check";
    nccl_fill = c"fl_nccl_fill";
    nccl_check = c"fl_nccl_check";
    tag = c"fl_tag";
    tag_check = c"fl_tag_check";
    batch_copy = c"fl_batch_copy";
    batch_check = c"fl_batch_check";
    copy16 = c"fl_copy16";
    copy_words = c"fl_copy_words";
    spin = c"fl_spin";
    chase_init = c"fl_chase_init";
    chase = c"fl_chase";
    pingpong = c"fl_pingpong";
    pingpong_wide = c"fl_pingpong_wide";
    march = c"fl_march";
    products_int8 = c"fl_products_int8";
    products_float = c"fl_products_float";
    reduce_fill = c"fl_reduce_fill";
    reduce = c"fl_reduce";
    reduce_check = c"fl_reduce_check";
    reduce_next = c"fl_reduce_next";
    atomic_add = c"fl_atomic_add";
    atomic_cas = c"fl_atomic_cas";
}

fn module(api: &Api, image: &[u8], ordinal: usize) -> Result<sys::CUmodule, GpuError> {
    let mut module = ptr::null_mut();
    // SAFETY: an image is ELF, whose headers give its size, or text that ends with a zero.
    let code = unsafe { (api.module)(&raw mut module, image.as_ptr().cast()) };
    api.check("cuModuleLoadData", code, || {
        format!("GPU {ordinal}: loading the kernels")
    })?;
    Ok(module)
}

fn function(
    api: &Api,
    module: sys::CUmodule,
    name: &CStr,
    ordinal: usize,
) -> Result<sys::CUfunction, GpuError> {
    let mut found = ptr::null_mut();
    // SAFETY: the module is loaded; the name ends with a zero.
    let code = unsafe { (api.function)(&raw mut found, module, name.as_ptr()) };
    api.check("cuModuleGetFunction", code, || {
        format!("GPU {ordinal}: kernel {}", name.to_string_lossy())
    })?;
    Ok(found)
}

impl Kernels {
    /// Unloads the image; its context must be current.
    pub(super) fn unload(&self, api: &Api) {
        // SAFETY: loaded once, unloaded once.
        unsafe { (api.module_unload)(self.module) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(capability: (u32, u32), cubin: (u32, u32)) -> bool {
        let wanted = CUBINS
            .iter()
            .find(|(c, _)| *c == cubin)
            .map(|(_, image)| image.as_ptr());
        fitting(capability).map(<[u8]>::as_ptr) == wanted
    }

    #[test]
    fn each_gpu_gets_the_nearest_code_of_its_major_version() {
        assert!(is((8, 9), (8, 9)) && is((9, 0), (9, 0)) && is((7, 5), (7, 5)));
        assert!(is((8, 7), (8, 6)), "Orin runs GA10x code");
        assert!(is((10, 3), (10, 0)) && is((12, 1), (12, 0)));
    }

    #[test]
    fn newer_gpus_get_ptx_and_older_ones_nothing() {
        assert_eq!(fitting((11, 0)), Some(PTX));
        assert_eq!(fitting((13, 0)), Some(PTX));
        assert_eq!(fitting((7, 0)), None);
        assert_eq!(fitting((6, 1)), None);
    }
}
