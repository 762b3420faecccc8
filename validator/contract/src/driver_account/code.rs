//! The codes of the findings that an account of the driver may contain. The validator has a cause and a
//! remedy for each.

use serde::de::{IntoDeserializer, value};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A code that an account may contain. Any other code is a defect of init or of the validator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING-KEBAB-CASE")]
pub enum Code {
    /// The driver found no GPU, and there is none.
    DriverNoGpu,
    /// Parts of the driver have different versions.
    DriverMismatch,
    /// A module was built for another kernel.
    DriverVermagic,
    /// A part of the driver is missing or cannot be read.
    DriverMissing,
    /// The kernel does not allow the module.
    DriverRefused,
    /// The module could not be loaded for another reason.
    DriverFailed,
    /// The driver did not start in time.
    DriverTimeout,
    /// A parameter is not in force.
    DriverParameters,
    /// The GPU's firmware was not found.
    GspMissing,
    /// The GPU has no system processor (GSP), or its registers cannot be read.
    GpuNoGsp,
    /// The GPU has no interrupt.
    GpuNoIrq,
    /// The GPU's VBIOS cannot be read.
    GpuVbios,
    /// The GPU could not be initialised for another reason.
    GpuInit,
    /// The GPU does not answer.
    GpuGone,
    /// A device node could not be created.
    NodesMissing,
    /// The machine has NVSwitches but no fabric manager.
    NvswitchNoManager,
    /// The machine has NVSwitches of NVLink 5, and their subnet manager does not run.
    Nvlink5NoNvlsm,
    /// A GPU is in another mode of confidential computing than the machine, or this kernel cannot start it in that mode.
    CcUnsupported,
    /// The module's patch level differs from the image's.
    PatchMissing,
    /// The driver logged an Xid error.
    GpuXid,
    /// Peer-to-peer through BAR1 is switched on and does not work.
    PatchNotEffective,
    /// BAR1 does not cover the GPU's memory.
    Bar1Small,
    /// The driver has not mapped all of the GPU's memory into BAR1.
    Bar1NotStatic,
    /// The kernel's log cannot be read.
    KmsgUnreadable,
}

impl Code {
    /// The code with this text.
    #[must_use]
    pub fn named(code: &str) -> Option<Self> {
        let text: value::StrDeserializer<'_, value::Error> = code.into_deserializer();
        Self::deserialize(text).ok()
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_its_words_in_capitals_and_is_found_by_them() {
        for (code, text) in [
            (Code::GpuNoGsp, "GPU-NO-GSP"),
            (Code::GspMissing, "GSP-MISSING"),
            (Code::NvswitchNoManager, "NVSWITCH-NO-MANAGER"),
            (Code::Nvlink5NoNvlsm, "NVLINK5-NO-NVLSM"),
            (Code::CcUnsupported, "CC-UNSUPPORTED"),
            (Code::PatchMissing, "PATCH-MISSING"),
            (Code::Bar1NotStatic, "BAR1-NOT-STATIC"),
        ] {
            assert_eq!(
                (code.to_string().as_str(), Code::named(text)),
                (text, Some(code))
            );
            assert_eq!(serde_json::json!(code), text);
        }
        for other in ["", "ACS-STUCK", "GpuInit", "gpu-init", "0"] {
            assert_eq!(Code::named(other), None, "{other}");
        }
    }
}
