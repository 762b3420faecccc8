//! The kernels of `validator/kernels` in one context: loading their image and finding each by name.
#![expect(unsafe_code, reason = "calls into the CUDA driver")]

use super::api::Api;
use super::error::GpuError;
use cudarc::driver::sys;
use std::ffi::CStr;
use std::ptr;

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
    api.check("cuModuleLoadData", code, || format!("GPU {ordinal}: loading the kernels"))?;
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
    api.check("cuModuleGetFunction", code, || format!("GPU {ordinal}: kernel {}", name.to_string_lossy()))?;
    Ok(found)
}

impl Kernels {
    /// Unloads the image; its context must be current.
    pub(super) fn unload(&self, api: &Api) {
        // SAFETY: loaded once, unloaded once.
        unsafe { (api.module_unload)(self.module) };
    }
}
