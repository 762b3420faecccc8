//! Real servers on the loopback interface: `fetch` over https from one with a trusted certificate and from one
//! without, and `time` from servers that are right, wrong, or silent. The certificates of server and authority in
//! `tests/data` are valid for a hundred years and for 127.0.0.1 only.

use super::machine::{Run, firstlight, run_of};
use super::servers::{CORRECT_TIME, NtpReply, start_ntp_server};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

fn certificates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/https.pem")
}

/// Answers every request with `ok`.
fn server() -> String {
    server_with(&certificates())
}

fn server_with(certificates: &Path) -> String {
    let chain = CertificateDer::pem_file_iter(certificates)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let key = PrivateKeyDer::from_pem_file(certificates).unwrap();
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let (config, listener) = (Arc::new(config), TcpListener::bind("127.0.0.1:0").unwrap());
    let url = format!("https://{}/f", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut tls =
                StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), stream);
            // A client that does not trust the certificate reports that and disconnects.
            let mut request = [0; 4096];
            if tls.read(&mut request).is_ok() {
                let _gone = tls.write_all(
                    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
                );
                let _gone = tls.flush();
            }
        }
    });
    url
}

fn fetch(url: &str, words: &[&str], to: &Path) -> Run {
    let ok = "2689367b205c16ce32ed4200942b8b8b1e262dfc70d9bc9fbc77c49699a4f1df";
    let mut command = firstlight("");
    command
        .args(["fetch", url, "--sha256", ok, "-o"])
        .arg(to)
        .args(words);
    run_of(
        command
            .env_remove("https_proxy")
            .env_remove("HTTPS_PROXY")
            .output()
            .unwrap(),
    )
}

#[test]
fn only_a_server_with_a_trusted_certificate_is_accepted() {
    let (dir, url) = (tempfile::tempdir().unwrap(), server());
    let to = dir.path().join("f");
    let strange = fetch(&url, &[], &to);
    assert_eq!(
        (strange.status, strange.err.lines().count()),
        (2, 1),
        "{}",
        strange.err
    );
    assert!(strange.err.contains("UnknownIssuer"), "{}", strange.err);
    assert!(!to.exists());
    let known = fetch(&url, &["--ca", certificates().to_str().unwrap()], &to);
    assert_eq!(known.status, 0, "{}", known.err);
    assert_eq!(std::fs::read_to_string(&to).unwrap(), "ok");
    let empty = dir.path().join("empty.pem");
    std::fs::write(&empty, "no certificate\n").unwrap();
    let none = fetch(&url, &["--ca", empty.to_str().unwrap()], &to);
    assert!(
        none.err.contains("empty.pem: no certificates in PEM form"),
        "{}",
        none.err
    );
}

#[test]
fn an_authority_that_is_used_as_the_servers_own_certificate_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/authority.pem");
    let done = fetch(
        &server_with(&authority),
        &["--ca", authority.to_str().unwrap()],
        &dir.path().join("f"),
    );
    assert_eq!(
        (done.status, done.err.lines().count()),
        (2, 1),
        "{}",
        done.err
    );
    assert!(
        done.err
            .contains("the server's certificate is that of an authority: make one"),
        "{}",
        done.err
    );
}

fn ask(servers: &[&str]) -> Run {
    run_of(
        firstlight("")
            .args(["time", "--timeout", "1"])
            .args(servers)
            .output()
            .unwrap(),
    )
}

#[test]
fn the_first_server_that_is_right_says_how_wrong_the_clock_is() {
    let (silent, ahead) = (
        start_ntp_server("127.0.0.1", None),
        NtpReply {
            ahead: 3600,
            ..CORRECT_TIME
        },
    );
    let server = start_ntp_server("127.0.0.1", Some(ahead));
    let done = ask(&[&silent, &server]);
    assert_eq!(done.status, 0, "{}", done.err);
    let (who, by) = done.out.trim().split_once(' ').unwrap();
    assert_eq!(who, server);
    let by: f64 = by.parse().unwrap();
    assert!((3599.0..3601.0).contains(&by), "{by}");
}

#[test]
fn each_server_that_is_not_believed_is_named_with_its_reason() {
    for (reply, why) in [
        (
            NtpReply {
                leap: 3,
                ..CORRECT_TIME
            },
            "not synchronized",
        ),
        (
            NtpReply {
                stratum: 16,
                ..CORRECT_TIME
            },
            "not synchronized",
        ),
        (
            NtpReply {
                stratum: 0,
                ..CORRECT_TIME
            },
            "Kiss-o'-Death",
        ),
        (
            NtpReply {
                ahead: -1_700_000_000,
                ..CORRECT_TIME
            },
            "its clock is wrong: before 2026",
        ),
    ] {
        let (silent, server) = (
            start_ntp_server("127.0.0.1", None),
            start_ntp_server("127.0.0.1", Some(reply)),
        );
        let done = ask(&[&server, &silent]);
        assert_eq!(
            (done.status, done.out.as_str(), done.err.lines().count()),
            (2, "", 1),
            "{}",
            done.err
        );
        assert!(
            done.err.contains(&format!("{server}: ")) && done.err.contains(why),
            "{}",
            done.err
        );
        assert!(
            done.err
                .contains(&format!("; {silent}: no answer within 1 s")),
            "{}",
            done.err
        );
    }
}
