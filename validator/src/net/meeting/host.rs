//! The listening side: admits peers, each in its own thread, so that a silent one does not delay the others. The port
//! is open as long as a [`Host`] exists.

use super::handshake::{HandshakeError, Token, handshake_as_host};
use super::link::Link;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The time limit of a peer's handshake, and of its first message.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// The most peers that are being admitted at the same time, and the most of them at one address; more are turned away, so that
/// one machine cannot keep the others from being admitted.
const MAX_PENDING: usize = 256;
const MAX_PENDING_OF_ONE: usize = 16;
const POLL_INTERVAL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};

/// A listening port.
#[derive(Debug)]
pub struct Host {
    listener: TcpListener,
    token: Token,
}

/// A peer that has proven that it knows the token.
#[derive(Debug)]
pub struct Admitted<C> {
    /// The first message of the peer.
    pub card: C,
    /// The connection.
    pub link: Link,
    /// The address of the peer.
    pub from: SocketAddr,
}

/// The result of one incoming connection.
#[derive(Debug)]
pub enum Event<C> {
    /// A peer was admitted.
    Admitted(Box<Admitted<C>>),
    /// A peer has another token; with its address and the name that it claims, which is not proven.
    WrongToken(SocketAddr, String),
    /// Something else connected; with its address and why it was turned away.
    Stranger(SocketAddr, String),
}

impl<C> Event<C> {
    /// The address that it is about.
    fn from(&self) -> SocketAddr {
        match self {
            Self::Admitted(peer) => peer.from,
            Self::WrongToken(from, _) | Self::Stranger(from, _) => *from,
        }
    }
}

impl Host {
    /// Listens at these addresses.
    ///
    /// # Errors
    /// The system's error: the address is another machine's, or in use.
    pub fn bind(at: &[SocketAddr], token: Token) -> io::Result<Self> {
        let listener = TcpListener::bind(at)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, token })
    }

    /// The address of the port.
    ///
    /// # Errors
    /// The system's error.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Closes the connections that have arrived so far: this node does not admit others yet.
    ///
    /// # Errors
    /// The system's error.
    pub fn close_pending(&self) -> io::Result<()> {
        loop {
            match self.listener.accept() {
                Ok(stream) => drop(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // The peer closed the connection first.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Admits peers until `each` returns true, or until `due`. Returns whether `each` has returned true.
    ///
    /// # Errors
    /// The system's error.
    pub fn admit<C: DeserializeOwned + Send + 'static>(
        &self,
        due: Instant,
        mut each: impl FnMut(Event<C>) -> bool,
    ) -> io::Result<bool> {
        let (sender, events): (Sender<Event<C>>, Receiver<Event<C>>) = channel();
        let mut pending = HashMap::new();
        while Instant::now() < due {
            let mut polled = [PollFd::new(&self.listener, PollFlags::IN)];
            if poll(&mut polled, Some(&POLL_INTERVAL)).is_ok_and(|ready| ready > 0) {
                self.accept(&mut pending, &sender)?;
            }
            while let Ok(event) = events.try_recv() {
                if let Some(count) = pending.get_mut(&event.from().ip()) {
                    *count = usize::saturating_sub(*count, 1);
                }
                pending.retain(|_, count| *count > 0);
                if each(event) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Accepts one connection; `pending` counts those that are being admitted.
    fn accept<C: DeserializeOwned + Send + 'static>(
        &self,
        pending: &mut HashMap<IpAddr, usize>,
        events: &Sender<Event<C>>,
    ) -> io::Result<()> {
        let Ok((stream, from)) = self.listener.accept() else {
            return Ok(());
        };
        // A port for both families reports IPv4 addresses as IPv6 ones.
        let from = SocketAddr::new(from.ip().to_canonical(), from.port());
        let of_one = pending.get(&from.ip()).copied().unwrap_or(0);
        if of_one >= MAX_PENDING_OF_ONE || pending.values().sum::<usize>() >= MAX_PENDING {
            log::debug!("{from}: turned away, others are being admitted");
            return Ok(());
        }
        stream.set_nonblocking(false)?;
        let (token, events) = (self.token.clone(), events.clone());
        let work = move || {
            let event = match handshake_as_host(stream, &token, HANDSHAKE_TIMEOUT) {
                Ok(mut link) => match link.from.receive(HANDSHAKE_TIMEOUT) {
                    Ok(card) => Event::Admitted(Box::new(Admitted { card, link, from })),
                    Err(error) => Event::Stranger(from, error.to_string()),
                },
                Err(HandshakeError::Token(name)) => Event::WrongToken(from, name),
                Err(HandshakeError::Protocol(why)) => Event::Stranger(from, why),
                Err(HandshakeError::Link(error)) => Event::Stranger(from, error.to_string()),
            };
            // The meeting may be over.
            let _ = events.send(event);
        };
        thread::Builder::new()
            .name("admit".to_owned())
            .spawn(work)?;
        *pending.entry(from.ip()).or_default() += 1;
        Ok(())
    }
}
