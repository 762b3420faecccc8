//! System calls about a watchdog device (Documentation/watchdog/watchdog-api.rst). Each of them can hang in a driver that
//! queries a management controller, so only children make them.

use rustix::ioctl;
use std::io;
use std::os::fd::BorrowedFd;

/// `struct watchdog_info` of linux/watchdog.h.
#[repr(C)]
struct Info {
    options: u32,
    firmware: u32,
    identity: [u8; 32],
}

const GET_SUPPORT: ioctl::Opcode = 0x8028_5700; // WDIOC_GETSUPPORT
const SET_TIMEOUT: ioctl::Opcode = 0xC004_5706; // WDIOC_SETTIMEOUT
const GET_TIMEOUT: ioctl::Opcode = 0x8004_5707; // WDIOC_GETTIMEOUT

/// The name that the driver gives its device, e.g. `iTCO_wdt`, in bytes up to the first zero.
///
/// # Errors
/// As ioctl(2).
pub fn identity(device: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    #[expect(unsafe_code, reason = "rustix has no WDIOC_GETSUPPORT")]
    // SAFETY: WDIOC_GETSUPPORT writes one `struct watchdog_info` of 40 bytes, which this is; every content is valid.
    let info = unsafe { ioctl::ioctl(device, ioctl::Getter::<GET_SUPPORT, Info>::new()) }?;
    Ok(info
        .identity
        .into_iter()
        .take_while(|byte| *byte != 0)
        .collect())
}

/// Sets the time in seconds after which the device resets the machine, and returns the time that the driver accepted.
///
/// # Errors
/// As ioctl(2); `EINVAL` for a time that the device cannot measure.
pub fn set_timeout(device: BorrowedFd<'_>, seconds: u32) -> io::Result<u32> {
    let mut value = i32::try_from(seconds).map_err(io::Error::other)?;
    #[expect(unsafe_code, reason = "rustix has no WDIOC_SETTIMEOUT")]
    // SAFETY: WDIOC_SETTIMEOUT reads and writes one int.
    unsafe {
        ioctl::ioctl(device, ioctl::Updater::<SET_TIMEOUT, i32>::new(&mut value))?;
    }
    u32::try_from(value).map_err(io::Error::other)
}

/// The time in seconds after which the device resets the machine.
///
/// # Errors
/// As ioctl(2).
pub fn timeout(device: BorrowedFd<'_>) -> io::Result<u32> {
    #[expect(unsafe_code, reason = "rustix has no WDIOC_GETTIMEOUT")]
    // SAFETY: WDIOC_GETTIMEOUT writes one int.
    let value = unsafe { ioctl::ioctl(device, ioctl::Getter::<GET_TIMEOUT, i32>::new()) }?;
    u32::try_from(value).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;

    #[test]
    fn what_is_no_watchdog_is_refused_by_each_call() {
        let file = File::open("/dev/null").unwrap();
        assert!(identity(file.as_fd()).is_err());
        assert!(set_timeout(file.as_fd(), 60).is_err());
        assert!(timeout(file.as_fd()).is_err());
        assert_eq!(size_of::<Info>(), 40);
    }
}
