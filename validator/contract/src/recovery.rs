//! The action that a finding requires before the GPU can be used again, as one word for programs.

use serde::{Deserialize, Serialize};
use std::fmt;

/// An action that recovers a GPU, named as in NVIDIA's driver and its catalogue of Xid errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Recovery {
    /// Nothing needs to be done.
    None,
    /// The program that had the error must be started again.
    RestartProgram,
    /// The GPU must be reset.
    ResetGpu,
    /// The machine must be rebooted.
    #[serde(rename = "reboot")]
    RebootNode,
    /// Programs that use peer-to-peer must end, then the driver reports what else is needed.
    DrainP2p,
    /// The GPU works with reduced capacity: no new program may start on it, and it must be reset after the last one ends.
    DrainAndReset,
    /// The machine must be powered off and on.
    PowerCycle,
    /// The part must be replaced, or NVIDIA's support must be asked.
    Replace,
}

impl Recovery {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::None,
        Self::RestartProgram,
        Self::ResetGpu,
        Self::RebootNode,
        Self::DrainP2p,
        Self::DrainAndReset,
        Self::PowerCycle,
        Self::Replace,
    ];

    /// The word in reports.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::RestartProgram => "restart-program",
            Self::ResetGpu => "reset-gpu",
            Self::RebootNode => "reboot",
            Self::DrainP2p => "drain-p2p",
            Self::DrainAndReset => "drain-and-reset",
            Self::PowerCycle => "power-cycle",
            Self::Replace => "replace",
        }
    }

    /// The action for a number that NVIDIA's driver uses: NVML's `nvmlDeviceGpuRecoveryAction_t`, and the
    /// numbers in Xid 154. `None` for a number whose meaning differs between drivers (5), that has no action
    /// here (6, a reset of the bus), or that is newer than this table.
    #[must_use]
    pub const fn of_driver(number: u64) -> Option<Self> {
        match number {
            0 => Some(Self::None),
            1 => Some(Self::ResetGpu),
            2 | 7 => Some(Self::RebootNode),
            3 => Some(Self::DrainP2p),
            4 => Some(Self::DrainAndReset),
            _ => None,
        }
    }
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_action_has_one_word_in_text_and_json() {
        for action in Recovery::ALL {
            assert_eq!(json!(action), json!(action.word()));
            assert_eq!(
                serde_json::from_value::<Recovery>(json!(action.word())).ok(),
                Some(action)
            );
        }
        let words: std::collections::BTreeSet<_> = Recovery::ALL.iter().map(|a| a.word()).collect();
        assert_eq!(words.len(), Recovery::ALL.len());
    }

    #[test]
    fn numbers_of_the_driver_have_an_action_only_where_all_drivers_agree() {
        use Recovery::{DrainAndReset, DrainP2p, RebootNode, ResetGpu};
        let known: Vec<_> = (0..9).map(Recovery::of_driver).collect();
        let first = [
            Some(Recovery::None),
            Some(ResetGpu),
            Some(RebootNode),
            Some(DrainP2p),
        ];
        assert_eq!(known[..4], first);
        assert_eq!(
            known[4..],
            [Some(DrainAndReset), None, None, Some(RebootNode), None]
        );
        assert_eq!(Recovery::of_driver(u64::MAX), None);
    }
}
