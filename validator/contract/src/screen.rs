//! The user's choice at the machine's screen: the exit statuses of `firstlight screen --machine`.

/// A choice that process 1 carries out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Run the tests of level quick.
    Quick,
    /// Run those of level standard.
    Standard,
    /// Run those of level full.
    Full,
    /// Keep the report on the data partition, and send it.
    Save,
    /// Restart the machine.
    Reboot,
    /// Power it off.
    PowerOff,
    /// Start a shell on the screen.
    Shell,
}

/// The status of the first choice; [`crate::status`], which includes the verdicts, uses 0 to 3 and 64.
const FIRST: u8 = 40;

const ALL: [Choice; 7] = [
    Choice::Quick,
    Choice::Standard,
    Choice::Full,
    Choice::Save,
    Choice::Reboot,
    Choice::PowerOff,
    Choice::Shell,
];

impl Choice {
    /// Its exit status.
    #[must_use]
    pub const fn status(self) -> u8 {
        FIRST + self as u8
    }

    /// The choice for an exit status.
    #[must_use]
    pub fn of_status(status: i32) -> Option<Self> {
        ALL.into_iter()
            .find(|choice| i32::from(choice.status()) == status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_one_choice_or_none() {
        for choice in ALL {
            assert_eq!(Choice::of_status(i32::from(choice.status())), Some(choice));
        }
        for other in [-1, 0, 1, 2, 3, 39, 47, 64, 130, 143] {
            assert_eq!(Choice::of_status(other), None, "{other}");
        }
    }
}
