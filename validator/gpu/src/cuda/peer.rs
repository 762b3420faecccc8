//! Access of one GPU to another's memory: queries the driver about it, and enables it.
#![expect(unsafe_code, reason = "calls into the CUDA driver")]

use super::device::Gpu;
use super::error::GpuError;

/// Access was already enabled (`CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED`).
const ALREADY: i32 = 704;

/// The driver's attributes of an ordered pair; the numbers are `CUdevice_P2PAttribute`'s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum P2pAttribute {
    /// 1 where peer access can be enabled.
    AccessSupported = 2,
    /// 1 where atomics over the link are performed by the owner.
    NativeAtomics = 3,
}

impl Gpu {
    /// Whether this GPU can reach `peer`'s memory according to the driver.
    ///
    /// # Errors
    /// The driver's error.
    pub fn can_access(&self, peer: &Self) -> Result<bool, GpuError> {
        let mut can = 0;
        let (from, to) = (self.context.device, peer.context.device);
        // SAFETY: one int is written; both devices come from the driver.
        let code = unsafe { (self.context.api.can_access_peer)(&raw mut can, from, to) };
        self.context
            .check("cuDeviceCanAccessPeer", code, || self.towards(peer))?;
        Ok(can != 0)
    }

    /// An attribute of the path from this GPU to `peer`.
    ///
    /// # Errors
    /// The driver's error.
    pub fn p2p_attribute(&self, attribute: P2pAttribute, peer: &Self) -> Result<i32, GpuError> {
        let mut value = 0;
        let (from, to) = (self.context.device, peer.context.device);
        // SAFETY: one int is written; both devices come from the driver.
        let code =
            unsafe { (self.context.api.p2p_attribute)(&raw mut value, attribute as u32, from, to) };
        self.context.check("cuDeviceGetP2PAttribute", code, || {
            format!("{}: {attribute:?}", self.towards(peer))
        })?;
        Ok(value)
    }

    /// Lets this GPU reach `peer`'s ordinary allocations, in this direction only; it is not an error if this is
    /// already enabled.
    ///
    /// # Errors
    /// The driver's error: 217 unsupported, 205 not mapped, 711 too many peers.
    pub fn enable_peer(&self, peer: &Self) -> Result<(), GpuError> {
        self.context.bind()?;
        // SAFETY: the peer's context is retained; 0 is the only flags value.
        let code = unsafe { (self.context.api.enable_peer)(peer.context.handle, 0) };
        if code == ALREADY {
            return Ok(());
        }
        let doing = || format!("{}: enabling peer access", self.towards(peer));
        self.context.check("cuCtxEnablePeerAccess", code, doing)
    }

    /// Disables that access.
    ///
    /// # Errors
    /// The driver's error; 705 when it was not enabled.
    pub fn disable_peer(&self, peer: &Self) -> Result<(), GpuError> {
        self.context.bind()?;
        // SAFETY: the peer's context is retained.
        let code = unsafe { (self.context.api.disable_peer)(peer.context.handle) };
        let doing = || format!("{}: disabling peer access", self.towards(peer));
        self.context.check("cuCtxDisablePeerAccess", code, doing)
    }

    fn towards(&self, peer: &Self) -> String {
        format!("GPU {} -> {}", self.ordinal, peer.ordinal)
    }
}

/// Peer access that is disabled when this value is dropped.
#[derive(Debug)]
pub struct PeerAccess {
    ways: Vec<(Gpu, Gpu)>,
}

impl PeerAccess {
    /// Lets `from` reach `to`.
    ///
    /// # Errors
    /// The driver's error.
    pub fn one_way(from: &Gpu, to: &Gpu) -> Result<Self, GpuError> {
        from.enable_peer(to)?;
        Ok(Self {
            ways: vec![(from.clone(), to.clone())],
        })
    }

    /// Lets both reach each other.
    ///
    /// # Errors
    /// The driver's error; then no access is enabled.
    pub fn both_ways(a: &Gpu, b: &Gpu) -> Result<Self, GpuError> {
        let mut on = Self::one_way(a, b)?;
        on.ways
            .extend(std::mem::take(&mut Self::one_way(b, a)?.ways));
        Ok(on)
    }

    /// Lets all reach each other.
    ///
    /// # Errors
    /// The driver's error; 711 beyond eight peers on machines without NVSwitch. Then no access is enabled.
    pub fn all(gpus: &[Gpu]) -> Result<Self, GpuError> {
        let mut on = Self { ways: Vec::new() };
        for a in gpus {
            for b in gpus.iter().filter(|b| b.ordinal != a.ordinal) {
                on.ways
                    .extend(std::mem::take(&mut Self::one_way(a, b)?.ways));
            }
        }
        Ok(on)
    }
}

impl Drop for PeerAccess {
    fn drop(&mut self) {
        for (from, to) in self.ways.drain(..) {
            if from.context.may_free() {
                // It may be disabled already.
                let _ = from.disable_peer(&to);
            }
        }
    }
}
