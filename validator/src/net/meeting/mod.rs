//! Connections between several machines during a test: one of them listens, the others connect, and all prove by the
//! Noise protocol that they know the same token, which is never sent. Every message has a size limit and a deadline, and
//! is encrypted and authenticated together with its number, so that no message can be read, changed, repeated or sent by
//! others. The caller defines the content of messages.

mod guest;
mod handshake;
mod host;
mod link;
mod wire;

pub use guest::{JoinError, join};
pub use handshake::Token;
pub use host::{Admitted, Event, Host};
pub use link::{Link, LinkReceiver, LinkSender};
pub use wire::LinkError;

/// A random number for a node, 16 hexadecimal digits.
///
/// # Errors
/// The kernel returns no random bytes.
pub fn random_id() -> Result<String, LinkError> {
    let bytes = handshake::nonce()?;
    Ok(bytes
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

/// The port of a meeting: of a node that announces itself, and under a launcher, none of which provides a free one.
pub const PORT: u16 = 29_517;

/// The name and version of the protocol, which must be the same on both sides.
const PROTOCOL: &str = "firstlight.meeting/2";
/// The longest message before a peer is proven to know the token, bytes.
const MAX_UNPROVEN_MESSAGE: usize = 4 << 10;
/// The longest message after that, bytes.
const MAX_MESSAGE: usize = 4 << 20;
/// The longest name of a node, characters.
pub const MAX_NAME: usize = 64;

#[cfg(test)]
mod tests {
    use super::wire::{receive, send};
    use super::*;
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, SocketAddr, TcpStream};
    use std::thread;
    use std::time::{Duration, Instant};

    const SOON: Duration = Duration::from_secs(20);
    const TOKEN: &str = "correct horse battery";

    fn token(text: &str) -> Token {
        Token::new(text).unwrap()
    }

    fn host() -> (Host, SocketAddr) {
        let host = Host::bind(&[(Ipv4Addr::LOCALHOST, 0).into()], token(TOKEN)).unwrap();
        let at = host.address().unwrap();
        (host, at)
    }

    /// Admits until one peer came, or `within` is over; returns the peer, and the other events as text.
    fn one(host: &Host, within: Duration) -> (Option<Admitted<String>>, Vec<String>) {
        let (mut came, mut others) = (None, Vec::new());
        host.admit(Instant::now() + within, |event| {
            match event {
                Event::Admitted(guest) => came = Some(*guest),
                Event::WrongToken(_, name) => others.push(format!("token of {name}")),
                Event::Stranger(_, why) => others.push(why),
            }
            came.is_some()
        })
        .unwrap();
        (came, others)
    }

    fn guest(at: SocketAddr, text: &'static str) -> thread::JoinHandle<Result<Link, JoinError>> {
        thread::spawn(move || {
            let mut link = join(&[at], &token(text), "b", Instant::now() + SOON)?;
            link.to.send(&"card", SOON).unwrap();
            Ok(link)
        })
    }

    fn pair() -> (Link, Link) {
        let (host, at) = host();
        let guest = guest(at, TOKEN);
        let came = one(&host, SOON).0.unwrap();
        assert_eq!(came.card, "card");
        (came.link, guest.join().unwrap().unwrap())
    }

    #[test]
    fn messages_go_both_ways_and_the_port_is_closed_afterwards() {
        let (host, at) = host();
        let guest = guest(at, TOKEN);
        let mut ours = one(&host, SOON).0.unwrap().link;
        let mut theirs = guest.join().unwrap().unwrap();
        drop(host);
        assert!(TcpStream::connect(at).is_err());
        for number in 0..3 {
            ours.to.send(&number, SOON).unwrap();
            assert_eq!(theirs.from.receive::<i32>(SOON).unwrap(), number);
            theirs.to.send(&(number + 10), SOON).unwrap();
            assert_eq!(ours.from.receive::<i32>(SOON).unwrap(), number + 10);
        }
        drop(theirs);
        assert_eq!(ours.from.receive::<i32>(SOON), Err(LinkError::Gone));
    }

    #[test]
    fn a_message_of_any_allowed_length_arrives_and_is_not_readable_on_the_way() {
        let (mut ours, mut theirs) = pair();
        // One piece of Noise holds 65,519 bytes: four of them are the length, two the quotation marks.
        for length in [0, 65_512, 65_513, 65_514, 200_000, 4_000_000] {
            let text = "secret".repeat(length / 6) + &"x".repeat(length % 6);
            let sent = thread::spawn({
                let text = text.clone();
                move || {
                    theirs.to.send(&text, SOON).unwrap();
                    theirs
                }
            });
            assert_eq!(ours.from.receive::<String>(SOON), Ok(text));
            theirs = sent.join().unwrap();
        }
        theirs.to.send(&"secret", SOON).unwrap();
        let bytes = receive(ours.to.stream(), MAX_MESSAGE, SOON).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains("secret"));
        let long = "x".repeat(MAX_MESSAGE);
        assert!(matches!(
            theirs.to.send(&long, SOON),
            Err(LinkError::Broken(_))
        ));
    }

    /// The first message of version 1 had the same form, so that a node of either version names the other's.
    #[test]
    fn another_version_is_named_in_one_line() {
        let old = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let node = guest(old.local_addr().unwrap(), TOKEN);
        let (mut stream, _) = old.accept().unwrap();
        let hello = serde_json::json!({ "protocol": "firstlight.meeting/1", "nonce": vec![7; 32] });
        send(&mut stream, hello.to_string().as_bytes(), SOON).unwrap();
        let why = node.join().unwrap().unwrap_err();
        assert_eq!(why.to_string(), "it speaks firstlight.meeting/1");
        // What a node of version 1 reads from this host.
        let (host, at) = host();
        let admitting = thread::spawn(move || one(&host, Duration::from_secs(1)));
        let mut node = TcpStream::connect(at).unwrap();
        let hello: serde_json::Value =
            serde_json::from_slice(&receive(&mut node, 4096, SOON).unwrap()).unwrap();
        assert_eq!(hello["protocol"], PROTOCOL);
        assert_eq!(hello["nonce"].as_array().map(Vec::len), Some(32));
        drop(node);
        assert!(admitting.join().unwrap().0.is_none());
    }

    #[test]
    fn a_wrong_token_is_refused_on_both_sides_and_others_are_still_admitted() {
        let (host, at) = host();
        let wrong = guest(at, "another token, as long");
        let (none, said) = one(&host, Duration::from_secs(1));
        assert!(none.is_none());
        assert_eq!(said, ["token of b"]);
        assert_eq!(wrong.join().unwrap().unwrap_err(), JoinError::Token);
        let right = guest(at, TOKEN);
        assert!(one(&host, SOON).0.is_some());
        assert!(right.join().unwrap().is_ok());
    }

    #[test]
    fn a_host_without_the_token_cannot_pose_as_one() {
        let (host, at) = host();
        let real = guest(at, TOKEN);
        let _ = one(&host, SOON);
        assert!(real.join().unwrap().is_ok());
        let posing = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let at = posing.local_addr().unwrap();
        let victim = guest(at, TOKEN);
        let (mut stream, _) = posing.accept().unwrap();
        let hello = serde_json::json!({ "protocol": PROTOCOL, "nonce": vec![7; 32] });
        send(&mut stream, hello.to_string().as_bytes(), SOON).unwrap();
        let join = receive(&mut stream, MAX_UNPROVEN_MESSAGE, SOON).unwrap();
        assert!(
            !String::from_utf8_lossy(&join).contains(TOKEN),
            "the token is never sent"
        );
        // The node's own proof, sent back.
        let proof = serde_json::from_slice::<serde_json::Value>(&join).unwrap()["noise"].clone();
        let welcome = serde_json::json!({ "Welcome": proof });
        send(&mut stream, welcome.to_string().as_bytes(), SOON).unwrap();
        assert_eq!(victim.join().unwrap().unwrap_err(), JoinError::Token);
    }

    /// Forwards bytes between a node and a host, and records those of the node.
    fn tapped(at: SocketAddr) -> (SocketAddr, thread::JoinHandle<Vec<Vec<u8>>>) {
        let tap = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let own = tap.local_addr().unwrap();
        let work = thread::spawn(move || {
            let (mut node, _) = tap.accept().unwrap();
            let mut host = TcpStream::connect(at).unwrap();
            let mut kept = Vec::new();
            let pass = |from: &mut TcpStream, to: &mut TcpStream| {
                let message = receive(from, MAX_MESSAGE, SOON).unwrap();
                send(to, &message, SOON).unwrap();
                message
            };
            pass(&mut host, &mut node);
            kept.push(pass(&mut node, &mut host));
            pass(&mut host, &mut node);
            kept.push(pass(&mut node, &mut host));
            kept
        });
        (own, work)
    }

    #[test]
    fn a_recorded_proof_is_worth_nothing_on_another_connection() {
        let (host, at) = host();
        let (tap, kept) = tapped(at);
        let node = guest(tap, TOKEN);
        assert!(
            one(&host, SOON).0.is_some(),
            "passing on alone changes nothing"
        );
        drop(node.join().unwrap());
        let kept = kept.join().unwrap();
        let mut replay = TcpStream::connect(at).unwrap();
        kept.iter()
            .for_each(|message| send(&mut replay, message, SOON).unwrap());
        let (none, said) = one(&host, Duration::from_secs(1));
        assert!(none.is_none());
        assert_eq!(said, ["token of b"]);
    }

    #[test]
    fn a_repeated_or_changed_message_ends_the_connection() {
        let (host, at) = host();
        let (tap, kept) = tapped(at);
        let node = guest(tap, TOKEN);
        let mut ours = one(&host, SOON).0.unwrap().link;
        let theirs = node.join().unwrap().unwrap();
        let card = kept.join().unwrap().pop().unwrap();
        // The tap has closed; the same bytes on a connection of the same key.
        drop(theirs);
        assert_eq!(ours.from.receive::<String>(SOON), Err(LinkError::Gone));
        let (mut ours, mut theirs) = pair();
        send(raw(&mut theirs), &card, SOON).unwrap();
        let why = ours.from.receive::<String>(SOON).unwrap_err().to_string();
        assert!(
            why.contains("it was changed, repeated, or sent by another"),
            "{why}"
        );
        let (mut ours, mut theirs) = pair();
        theirs.to.send(&1, SOON).unwrap();
        assert_eq!(ours.from.receive::<i32>(SOON), Ok(1));
        theirs.to.reuse_last_number();
        theirs.to.send(&1, SOON).unwrap();
        assert!(
            matches!(ours.from.receive::<i32>(SOON), Err(LinkError::Malformed(_))),
            "the same message a second time"
        );
    }

    fn raw(link: &mut Link) -> &mut TcpStream {
        link.to.stream()
    }

    #[test]
    fn long_short_and_foreign_messages_are_refused_within_bounds() {
        let (host, at) = host();
        for bytes in [
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            &[0xff; 64],
            &[2, 0, 0, 0, b'{', b'}'],
            &[0; 4],
        ] {
            let mut stream = TcpStream::connect(at).unwrap();
            stream.write_all(bytes).unwrap();
            let (none, said) = one(&host, Duration::from_secs(1));
            assert!(none.is_none());
            assert!(
                said.len() == 1 && said[0].starts_with("its message is refused: "),
                "{said:?}"
            );
        }
        // A silent peer does not delay the others.
        let silent = TcpStream::connect(at).unwrap();
        let node = guest(at, TOKEN);
        let begun = Instant::now();
        assert!(one(&host, SOON).0.is_some());
        assert!(
            begun.elapsed() < Duration::from_secs(4),
            "{:?}",
            begun.elapsed()
        );
        drop((silent, node));
    }

    #[test]
    fn silent_peers_at_one_address_keep_no_other_address_away() {
        let (host, at) = host();
        // 127.0.0.2 stands for another machine; every address of 127.0.0.0/8 is this one's.
        let silent: Vec<_> = (0..100).map(|_| TcpStream::connect(at).unwrap()).collect();
        let node = thread::spawn(move || {
            let port = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let through = port.local_addr().unwrap();
            // Passes on what the node says, from the other address.
            let pass = thread::spawn(move || {
                let (node, _) = port.accept().unwrap();
                let socket = rustix::net::socket(
                    rustix::net::AddressFamily::INET,
                    rustix::net::SocketType::STREAM,
                    None,
                );
                let socket = socket.unwrap();
                rustix::net::bind(&socket, &SocketAddr::from(([127, 0, 0, 2], 0))).unwrap();
                rustix::net::connect(&socket, &at).unwrap();
                let far = TcpStream::from(socket);
                let (mut up, mut down) = (node.try_clone().unwrap(), far.try_clone().unwrap());
                let back = thread::spawn(move || std::io::copy(&mut down, &mut up));
                let _ = std::io::copy(&mut &node, &mut &far);
                let _ = back.join();
            });
            let mut link = join(&[through], &token(TOKEN), "b", Instant::now() + SOON).unwrap();
            link.to.send(&"card", SOON).unwrap();
            drop(link);
            pass.join().unwrap();
        });
        let begun = Instant::now();
        let (came, _) = one(&host, SOON);
        assert_eq!(came.unwrap().from.ip(), Ipv4Addr::new(127, 0, 0, 2));
        assert!(
            begun.elapsed() < Duration::from_secs(4),
            "{:?}",
            begun.elapsed()
        );
        drop(silent);
        node.join().unwrap();
    }

    #[test]
    fn a_node_gives_up_in_time_where_nothing_or_something_else_listens() {
        let (host, at) = host();
        drop(host);
        let soon = Instant::now() + Duration::from_millis(300);
        let why = join(&[at], &token(TOKEN), "b", soon).unwrap_err();
        assert!(matches!(why, JoinError::Nothing(_)), "{why}");
        let other = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let at = other.local_addr().unwrap();
        let node = guest(at, TOKEN);
        let (mut stream, _) = other.accept().unwrap();
        stream.write_all(b"SSH-2.0-OpenSSH_9.9\r\n").unwrap();
        let why = node.join().unwrap().unwrap_err();
        assert!(matches!(why, JoinError::Stranger(_)), "{why}");
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.is_empty(), "nothing is said to a stranger");
    }

    #[test]
    fn a_token_has_enough_characters_and_is_never_shown() {
        for text in [
            "",
            "short",
            "fifteen letters",
            &"x".repeat(257),
            "a\tcontrol character",
        ] {
            assert!(
                Token::new(text)
                    .unwrap_err()
                    .ends_with("allowed: 16 to 256"),
                "{text}"
            );
        }
        assert_eq!(format!("{:?}", token(TOKEN)), "a token");
    }
}
