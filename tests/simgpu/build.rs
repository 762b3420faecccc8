//! Sets each library's soname to the real one's. libcuda, libnccl and libibverbs are never unloaded: libcuda's handler runs
//! on faults in the memory that it has closed, and libcuda calls into libnccl.

fn main() -> Result<(), String> {
    let (name, stays) = match std::env::var("CARGO_PKG_NAME").as_deref() {
        Ok("simgpu-cuda") => ("libcuda.so.1", true),
        Ok("simgpu-nccl") => ("libnccl.so.2", true),
        Ok("simgpu-verbs") => ("libibverbs.so.1", true),
        Ok("simgpu-nvml") => ("libnvidia-ml.so.1", false),
        other => return Err(format!("no simulated library is made by {other:?}")),
    };
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{name}");
    if stays {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
    println!("cargo:rerun-if-changed=../build.rs");
    Ok(())
}
