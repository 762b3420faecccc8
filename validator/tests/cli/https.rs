//! `fetch` from a real https server: one whose certificate is vouched for, and one whose is not.
//! The certificates in `tests/data` are good for a hundred years and for 127.0.0.1 only.

use super::machine::{Said, firstlight, said};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// Answers every request with `ok`.
fn server() -> String {
    let chain = CertificateDer::pem_file_iter(data("server.pem")).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(data("server.key")).unwrap();
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
    let (config, listener) = (Arc::new(config), TcpListener::bind("127.0.0.1:0").unwrap());
    let url = format!("https://{}/f", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut tls = StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), stream);
            // A client that does not trust us says so and goes.
            let mut request = [0; 4096];
            if tls.read(&mut request).is_ok() {
                let _gone =
                    tls.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
                let _gone = tls.flush();
            }
        }
    });
    url
}

fn fetch(url: &str, words: &[&str], to: &Path) -> Said {
    let ok = "2689367b205c16ce32ed4200942b8b8b1e262dfc70d9bc9fbc77c49699a4f1df";
    let mut command = firstlight("");
    command.args(["fetch", url, "--sha256", ok, "-o"]).arg(to).args(words);
    said(command.env_remove("https_proxy").env_remove("HTTPS_PROXY").output().unwrap())
}

#[test]
fn only_a_server_that_is_vouched_for_is_believed() {
    let (dir, url) = (tempfile::tempdir().unwrap(), server());
    let to = dir.path().join("f");
    let strange = fetch(&url, &[], &to);
    assert_eq!((strange.status, strange.err.lines().count()), (2, 1), "{}", strange.err);
    assert!(strange.err.contains("UnknownIssuer"), "{}", strange.err);
    assert!(!to.exists());
    let known = fetch(&url, &["--ca", data("ca.pem").to_str().unwrap()], &to);
    assert_eq!(known.status, 0, "{}", known.err);
    assert_eq!(std::fs::read_to_string(&to).unwrap(), "ok");
    let none = fetch(&url, &["--ca", data("server.key").to_str().unwrap()], &to);
    assert!(none.err.contains("server.key: no certificates in PEM form"), "{}", none.err);
}
