//! An open port: its device, a protection domain and one completion queue.
#![expect(unsafe_code, reason = "calls into libibverbs")]

use super::VerbsError;
use super::abi::{ACTIVE, Completion, Context, Cq, Pd, PortAttr};
use super::library::{Api, api};
use crate::poll::pause;
use serde::{Deserialize, Serialize};
use std::ffi::CStr;
use std::ptr;
use std::thread::yield_now;
use std::time::{Duration, Instant};

/// The capacity of a completion queue.
pub(super) const MAX_COMPLETIONS: i32 = 64;
/// How long a completion is polled for without a pause: longer than a transfer of the largest size takes. After that the card
/// has probably failed, and a processor need not be kept busy until the deadline.
const SPIN_TIME: Duration = Duration::from_millis(20);

/// How another port reaches this one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// The local identifier of the subnet (InfiniBand); 0 on Ethernet.
    pub lid: u16,
    /// The global identifier; `None`: the lid alone is enough.
    pub gid: Option<[u8; 16]>,
    /// The present MTU, by its code: 1 for 256 bytes to 5 for 4096.
    pub mtu: i32,
}

/// An open port; closed when dropped, after everything made with it.
pub struct Port {
    pub(super) api: &'static Api,
    pub(super) context: *mut Context,
    pub(super) pd: *mut Pd,
    pub(super) cq: *mut Cq,
    /// `mlx5_0:1`
    pub(super) name: String,
    pub(super) number: u8,
    /// The index of its global identifier, if it has one.
    pub(super) gid_index: Option<u8>,
    address: Address,
}

impl Port {
    /// Opens port `number` of the device `device`; its global identifier is that with index `gid`.
    ///
    /// # Errors
    /// The library or the device is missing, the port is not ACTIVE, or a call failed.
    pub fn open(device: &str, number: u8, gid: Option<u8>) -> Result<Self, VerbsError> {
        let api = api()?;
        let name = format!("{device}:{number}");
        let context = open(api, device)?;
        // From here on, dropping `port` releases everything.
        let address = Address {
            lid: 0,
            gid: None,
            mtu: 0,
        };
        let (pd, cq) = (ptr::null_mut(), ptr::null_mut());
        let mut port = Self {
            api,
            context,
            pd,
            cq,
            name,
            number,
            gid_index: gid,
            address,
        };
        port.query()?;
        // SAFETY: the context is open.
        port.pd = unsafe { (api.alloc_pd)(context) };
        if port.pd.is_null() {
            return Err(VerbsError::last(format!("ibv_alloc_pd on {}", port.name)));
        }
        // SAFETY: the context is open; no event channel and no data of ours are attached.
        port.cq = unsafe {
            (api.create_cq)(
                context,
                MAX_COMPLETIONS,
                ptr::null_mut(),
                ptr::null_mut(),
                0,
            )
        };
        if port.cq.is_null() {
            return Err(VerbsError::last(format!("ibv_create_cq on {}", port.name)));
        }
        Ok(port)
    }

    /// Reads its state and its addresses.
    fn query(&mut self) -> Result<(), VerbsError> {
        let mut attr = PortAttr::default();
        // SAFETY: the context is open, and the structure is at least as large as the library's.
        let code = unsafe { (self.api.query_port)(self.context, self.number, &raw mut attr) };
        if code != 0 {
            return Err(VerbsError::code(
                format!("ibv_query_port on {}", self.name),
                code,
            ));
        }
        if attr.state != ACTIVE {
            return Err(VerbsError::Missing(format!(
                "{} is not ACTIVE (state {})",
                self.name, attr.state
            )));
        }
        let mut gid = None;
        if let Some(index) = self.gid_index {
            let mut found = [0; 16];
            // SAFETY: as above; 16 bytes are written.
            let code = unsafe {
                (self.api.query_gid)(self.context, self.number, index.into(), &raw mut found)
            };
            if code != 0 {
                return Err(VerbsError::code(
                    format!("ibv_query_gid {index} on {}", self.name),
                    code,
                ));
            }
            gid = Some(found);
        }
        self.address = Address {
            lid: attr.lid,
            gid,
            mtu: attr.active_mtu,
        };
        Ok(())
    }

    /// Its address.
    #[must_use]
    pub const fn address(&self) -> &Address {
        &self.address
    }

    /// The next completion; `None` if there is none until `due`.
    pub(super) fn completion(&self, due: Instant) -> Result<Option<Completion>, VerbsError> {
        // SAFETY: the context is open; its table is filled in by the provider.
        let poll = unsafe { (*self.context).poll_cq };
        let poll =
            poll.ok_or_else(|| VerbsError::Missing(format!("{}: no ibv_poll_cq", self.name)))?;
        let mut waits_since = None;
        loop {
            let mut completion = Completion::default();
            // SAFETY: the queue exists, and there is room for one.
            match unsafe { poll(self.cq, 1, &raw mut completion) } {
                0 => {
                    let now = Instant::now();
                    if now >= due {
                        return Ok(None);
                    }
                    let waited = now.duration_since(*waits_since.get_or_insert(now));
                    if waited < SPIN_TIME {
                        yield_now();
                    } else {
                        pause(waited);
                    }
                }
                1 => return Ok(Some(completion)),
                code => {
                    return Err(VerbsError::code(
                        format!("ibv_poll_cq on {}", self.name),
                        code,
                    ));
                }
            }
        }
    }

    /// The library's text for a completion's status.
    pub(super) fn status(&self, completion: &Completion) -> String {
        // SAFETY: any number is allowed; the text is static.
        let text = unsafe { (self.api.status_text)(completion.status) };
        let text = if text.is_null() {
            "unknown".to_owned()
        } else {
            text_of(text)
        };
        format!(
            "{text} (status {}, vendor's {:#x})",
            completion.status, completion.vendor
        )
    }
}

fn text_of(text: super::abi::CStrPtr) -> String {
    // SAFETY: the library's text, which ends with 0.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

fn open(api: &Api, device: &str) -> Result<*mut Context, VerbsError> {
    let mut count = 0;
    // SAFETY: the number is written.
    let all = unsafe { (api.devices)(&raw mut count) };
    if all.is_null() {
        return Err(VerbsError::last("ibv_get_device_list"));
    }
    let mut names = Vec::new();
    let mut opened = None;
    for n in 0..usize::try_from(count).unwrap_or_default() {
        // SAFETY: the list has that many devices.
        let one = unsafe { *all.add(n) };
        // SAFETY: a device of the list, which is not freed yet.
        let name = text_of(unsafe { (api.device_name)(one) });
        if name == device {
            // SAFETY: as above.
            opened = Some(unsafe { (api.open)(one) });
            break;
        }
        names.push(name);
    }
    let opened = opened.map(|context| {
        if context.is_null() {
            Err(VerbsError::last(format!("ibv_open_device {device}")))
        } else {
            Ok(context)
        }
    });
    // SAFETY: the library's list, freed once; an open device stays.
    unsafe { (api.free_devices)(all) };
    opened.unwrap_or_else(|| {
        let known = if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        };
        Err(VerbsError::Missing(format!(
            "libibverbs has no driver for {device}; it knows {known}"
        )))
    })
}

impl Drop for Port {
    fn drop(&mut self) {
        // Whatever cannot be released here is released when the process ends.
        if !self.cq.is_null() {
            // SAFETY: made by this port; connections hold the port, so none is left.
            unsafe { (self.api.destroy_cq)(self.cq) };
        }
        if !self.pd.is_null() {
            // SAFETY: as above; regions hold the port too.
            unsafe { (self.api.dealloc_pd)(self.pd) };
        }
        // SAFETY: opened by this port, closed once.
        unsafe { (self.api.close)(self.context) };
    }
}

impl std::fmt::Debug for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Port")
            .field("name", &self.name)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}
