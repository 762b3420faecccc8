//! The GPUs that CUDA sees, and their properties.
#![expect(unsafe_code, reason = "calls into the CUDA driver")]

use super::api::{Api, api};
use super::context::Context;
use super::error::GpuError;
use super::kernels;
use cudarc::driver::sys::{self, CUdevice_attribute_enum as Attribute};
use machine::GpuId;
use machine::pcie::model::Bdf;
use std::ffi::{CStr, c_char, c_int};
use std::rc::Rc;

/// One GPU with its context.
#[derive(Debug, Clone)]
pub struct Gpu {
    /// CUDA's number for it.
    pub ordinal: usize,
    /// Its address.
    pub bdf: Bdf,
    /// The model, as the driver names it.
    pub name: String,
    /// Its UUID, as `GPU-xxxxxxxx-..`.
    pub uuid: String,
    /// Multiprocessors.
    pub sms: u32,
    /// Compute capability, major and minor.
    pub capability: (u32, u32),
    /// Maximum clock of the multiprocessors, kHz.
    pub clock_khz: u32,
    /// Its memory, bytes.
    pub memory_bytes: u64,
    pub(super) context: Rc<Context>,
}

/// The CUDA version that the driver offers, as in `13.0`.
///
/// # Errors
/// CUDA cannot be started.
pub(crate) fn version() -> Result<String, GpuError> {
    let api = api()?;
    let mut version = 0;
    // SAFETY: one int is written.
    let code = unsafe { (api.driver_version)(&raw mut version) };
    api.check("cuDriverGetVersion", code, String::new)?;
    Ok(format!("{}.{}", version / 1000, version % 1000 / 10))
}

/// The number of GPUs that CUDA sees.
///
/// # Errors
/// CUDA cannot be started.
pub(crate) fn count() -> Result<usize, GpuError> {
    let api = api()?;
    let mut count = 0;
    // SAFETY: one int is written.
    let code = unsafe { (api.device_count)(&raw mut count) };
    api.check("cuDeviceGetCount", code, || "counting GPUs".to_owned())?;
    usize::try_from(count).map_err(|_| GpuError::Nonsense(format!("CUDA sees {count} GPUs")))
}

/// The GPU with number `ordinal` among those that CUDA sees, with a context in which the kernels are loaded.
///
/// # Errors
/// CUDA cannot be started, or the GPU cannot be used.
pub(crate) fn open(ordinal: usize) -> Result<Gpu, GpuError> {
    let n = c_int::try_from(ordinal)
        .map_err(|_| GpuError::Nonsense(format!("there is no GPU {ordinal}")))?;
    Gpu::open(api()?, n)
}

impl Gpu {
    /// Its number in a run, which opens every GPU that CUDA sees.
    #[must_use]
    pub const fn id(&self) -> GpuId {
        GpuId::new(self.ordinal)
    }

    fn open(api: &'static Api, n: c_int) -> Result<Self, GpuError> {
        let mut device = 0;
        // SAFETY: one handle is written.
        let code = unsafe { (api.device)(&raw mut device, n) };
        api.check("cuDeviceGet", code, || format!("GPU {n}"))?;
        let query = DeviceQuery { api, device, n };
        let ordinal = usize::try_from(n).unwrap_or_default();
        let name = query.text("cuDeviceGetName", |at, room| {
            // SAFETY: at most `room` characters are written, ended by a zero.
            unsafe { (api.device_name)(at, room, device) }
        })?;
        let address = query.text("cuDeviceGetPCIBusId", |at, room| {
            // SAFETY: as above.
            unsafe { (api.device_address)(at, room, device) }
        })?;
        let bdf = address
            .parse()
            .map_err(|e| GpuError::Nonsense(format!("GPU {n}: {e}")))?;
        let sms = query.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let capability = (
            query.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            query.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        );
        let image = kernels::fitting(capability).ok_or_else(|| GpuError::Image {
            gpu: format!("GPU {n} ({name})"),
            capability,
        })?;
        Ok(Self {
            ordinal,
            bdf,
            name,
            uuid: query.uuid()?,
            sms,
            capability,
            clock_khz: query.attribute(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?,
            memory_bytes: query.memory()?,
            context: Rc::new(Context::retain(device, ordinal, sms, image)?),
        })
    }

    /// For NCCL, which starts on the GPU whose context is current.
    pub fn make_current(&self) -> Result<(), GpuError> {
        self.context.bind()
    }

    /// Free and total memory, bytes.
    ///
    /// # Errors
    /// The driver's error.
    pub fn memory(&self) -> Result<(u64, u64), GpuError> {
        self.context.bind()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: two sizes are written.
        let code = unsafe { (self.context.api.memory_info)(&raw mut free, &raw mut total) };
        self.context.check("cuMemGetInfo", code, || {
            format!("GPU {}: its memory", self.ordinal)
        })?;
        Ok((free as u64, total as u64))
    }
}

/// How network cards may reach a GPU's memory, according to the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectRdma {
    /// The old GPUDirect RDMA mechanism, which the module `nvidia_peermem` implements.
    pub peer_memory: bool,
    /// GPUDirect RDMA by dma-buf.
    pub dma_buf: bool,
    /// GPUDirect RDMA for mapped memory too, which NCCL uses.
    pub mapped: bool,
}

impl Gpu {
    /// How network cards may reach its memory. A driver that does not know an attribute does not offer the
    /// mechanism.
    ///
    /// # Errors
    /// The driver's error.
    pub fn direct_rdma(&self) -> Result<DirectRdma, GpuError> {
        const UNKNOWN: i32 = 1; // CUDA_ERROR_INVALID_VALUE
        let n = c_int::try_from(self.ordinal).unwrap_or_default();
        let query = DeviceQuery {
            api: self.context.api,
            device: self.context.device,
            n,
        };
        let offers = |attribute| match query.attribute(attribute) {
            Err(error) if error.code() == Some(UNKNOWN) => Ok(false),
            other => other.map(|value| value != 0),
        };
        Ok(DirectRdma {
            peer_memory: offers(Attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED)?,
            dma_buf: offers(Attribute::CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED)?,
            mapped: offers(Attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED)?,
        })
    }
}

/// Queries the properties of one device.
struct DeviceQuery {
    api: &'static Api,
    device: sys::CUdevice,
    n: c_int,
}

impl DeviceQuery {
    fn attribute(&self, attribute: Attribute) -> Result<u32, GpuError> {
        let mut value = 0;
        // SAFETY: one int is written; the driver refuses attributes that it does not know.
        let code =
            unsafe { (self.api.device_attribute)(&raw mut value, attribute as u32, self.device) };
        let doing = || format!("GPU {}: {attribute:?}", self.n);
        self.api.check("cuDeviceGetAttribute", code, doing)?;
        u32::try_from(value).map_err(|_| GpuError::Nonsense(format!("{}: {value}", doing())))
    }

    fn memory(&self) -> Result<u64, GpuError> {
        let mut bytes = 0;
        // SAFETY: one size is written.
        let code = unsafe { (self.api.device_memory)(&raw mut bytes, self.device) };
        self.api
            .check("cuDeviceTotalMem", code, || format!("GPU {}", self.n))?;
        Ok(bytes as u64)
    }

    fn uuid(&self) -> Result<String, GpuError> {
        let mut uuid = sys::CUuuid { bytes: [0; 16] };
        // SAFETY: sixteen bytes are written.
        let code = unsafe { (self.api.device_uuid)(&raw mut uuid, self.device) };
        self.api
            .check("cuDeviceGetUuid", code, || format!("GPU {}", self.n))?;
        let hex: Vec<String> = uuid
            .bytes
            .iter()
            .map(|b| format!("{:02x}", b.to_ne_bytes()[0]))
            .collect();
        let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default().concat();
        Ok(format!(
            "GPU-{}-{}-{}-{}-{}",
            part(0, 4),
            part(4, 6),
            part(6, 8),
            part(8, 10),
            part(10, 16)
        ))
    }

    fn text(
        &self,
        call: &'static str,
        ask: impl Fn(*mut c_char, c_int) -> c_int,
    ) -> Result<String, GpuError> {
        // One byte more than the driver may write, so that the text always ends with a zero.
        let mut room = [0; 257];
        let code = ask(room.as_mut_ptr(), 256);
        self.api.check(call, code, || format!("GPU {}", self.n))?;
        // SAFETY: the last of the characters is zero whatever was written before it.
        let text = unsafe { CStr::from_ptr(room.as_ptr()) };
        Ok(text.to_string_lossy().into_owned())
    }
}
