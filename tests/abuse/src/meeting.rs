//! Attacks on the meeting of nodes and on the question for the time.

use crate::client::Random;
use crate::table::Counts;
use firstlight::net::meeting::{Event, Host, Token, join};
use firstlight::net::sntp;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const TOKEN: &str = "a token of the meeting";
const SOON: Duration = Duration::from_secs(20);

/// A host with silent, strange and wrong peers: the right one is admitted, and no other.
pub(crate) fn strangers() -> Counts {
    let (mut counts, mut random) = (Counts::default(), Random(3));
    let mut slowest = Duration::ZERO;
    for _ in 0..25 {
        counts.runs += 1;
        let token = |text: &str| Token::new(text).unwrap();
        let host = Host::bind(&[(Ipv4Addr::LOCALHOST, 0).into()], token(TOKEN)).unwrap();
        let at: SocketAddr = host.address().unwrap();
        let over = AtomicBool::new(false);
        let begun = Instant::now();
        thread::scope(|scope| {
            let mut strange = Vec::new();
            for _ in 0..12 {
                let Ok(mut stream) = TcpStream::connect(at) else {
                    continue;
                };
                let length = random.below(200) as usize;
                let bytes: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
                let _ = stream.write_all(&bytes);
                strange.push(stream);
            }
            scope.spawn(|| {
                let wrong = join(
                    &[at],
                    &token("another token, as long"),
                    "b",
                    Instant::now() + Duration::from_secs(5),
                );
                drop(wrong);
            });
            // It joins again until it is admitted: the host may turn it away.
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) && begun.elapsed() < SOON {
                    if let Ok(mut link) = join(&[at], &token(TOKEN), "right", Instant::now() + SOON)
                    {
                        let _ = link.to.send(&"card", SOON);
                        thread::sleep(Duration::from_millis(200));
                    }
                }
            });
            let mut cards = Vec::new();
            let admitted = host.admit(Instant::now() + SOON, |event: Event<String>| {
                if let Event::Admitted(peer) = event {
                    cards.push(peer.card);
                }
                !cards.is_empty()
            });
            over.store(true, Ordering::Relaxed);
            drop(host);
            if !admitted.unwrap() {
                counts.hung += 1;
            }
            counts.check(cards == ["card"], || format!("{cards:?}"));
            slowest = slowest.max(begun.elapsed());
            drop(strange);
        });
    }
    counts.note(format!("the slowest meeting took {slowest:.1?}"));
    counts
}

/// A server whose right answer comes after wrong datagrams, or not at all.
pub(crate) fn time() -> Counts {
    let (mut counts, mut random) = (Counts::default(), Random(9));
    for run in 0..30 {
        counts.runs += 1;
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap().to_string();
        server
            .set_read_timeout(Some(Duration::from_secs(6)))
            .unwrap();
        let right = run % 3 != 0;
        let noise: Vec<Vec<u8>> = (0..8)
            .map(|_| {
                (0..random.below(80))
                    .map(|_| random.below(256) as u8)
                    .collect()
            })
            .collect();
        let serving = thread::spawn(move || {
            let mut bytes = [0; 100];
            let Ok((length, from)) = server.recv_from(&mut bytes) else {
                return;
            };
            for part in &noise {
                let _ = server.send_to(part, from);
            }
            // The times of every third answer are 0.
            let time = if right {
                (1_800_000_000_u64 + 2_208_988_800) << 32
            } else {
                0
            };
            let mut answer = vec![0b00_100_100, 2];
            answer.resize(24, 0);
            answer.extend_from_slice(&bytes[40..length.min(48)]);
            answer.extend_from_slice(&time.to_be_bytes());
            answer.extend_from_slice(&time.to_be_bytes());
            let _ = server.send_to(&answer, from);
        });
        let begun = Instant::now();
        let got = sntp::query(&[address], Duration::from_secs(4));
        counts.check(got.is_ok() == right, || format!("{got:?}"));
        counts.hung += u64::from(begun.elapsed() > Duration::from_secs(10));
        let _ = serving.join();
    }
    counts
}
